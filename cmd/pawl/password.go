package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawlock/pawl/cmd/pawl/internal/open"
	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
)

// addPassword completes target: --password-file and --password-command beat the
// URL, and the URL beats the environment. It goes for each server of a quorum.
func (p *program) addPassword(target *open.Target, from string) error {
	servers := target.Servers()
	if len(servers) > 0 && p.passwordCommand != "" && p.passwordFile == "" {
		password, err := p.askPassword()
		if err != nil {
			return err
		}
		for _, t := range servers {
			t.Password, t.HasPassword = password, true
		}
	}
	if len(servers) > 0 && p.passwordFile != "" {
		password, err := p.readPassword()
		if err != nil {
			return fail(exitConfig, "cannot read --password-file: %v", err)
		}
		for _, t := range servers {
			t.Password, t.HasPassword = password, true
			if info, err := os.Stat(p.passwordFile); err == nil && info.Mode().IsRegular() { // a pipe is read once
				t.Refresh = p.passwordNow
			}
		}
	}
	visible := target.SentinelPassword != ""
	for _, t := range servers {
		if !t.HasPassword {
			t.Password, t.HasPassword = p.ambientPassword(t)
		} else if t.Password != "" && p.passwordFile == "" && p.passwordCommand == "" {
			visible = true
		}
	}
	if password, ok := os.LookupEnv("PAWL_SENTINEL_PASSWORD"); ok && target.SentinelPassword == "" {
		target.SentinelPassword = password
	}
	if visible && from == "--url" {
		p.note("a password on the command line can be read by other users of this machine: PAWL_PASSWORD and --password-file are safe")
	}
	return nil
}

// passwordNow reads --password-file again, for a new connection: the password may
// have been changed while the lock is held.
func (p *program) passwordNow() (string, error) {
	password, err := (&program{passwordFile: p.passwordFile, quiet: true, err: io.Discard}).readPassword()
	if err != nil {
		return "", fmt.Errorf("cannot read --password-file: %w", err)
	}
	return password, nil
}

func (p *program) readPassword() (string, error) {
	f, err := os.Open(p.passwordFile)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		p.note("%s can be read by other users (mode %04o): chmod 600 it", plain.Text(p.passwordFile), info.Mode().Perm())
	}
	line, err := bufio.NewReader(io.LimitReader(f, 64<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// askPassword runs --password-command. It is not run again for new connections:
// by then this process answers for all of its children.
func (p *program) askPassword() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", p.passwordCommand)
	cmd.Stdin, cmd.Stderr = os.Stdin, p.err
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fail(exitConfig, "--password-command: %v", err)
	}
	line, _, _ := bytes.Cut(out, []byte("\n"))
	return strings.TrimRight(string(line), "\r"), nil
}

// ambientPassword returns the password for t that nobody has named: that of the
// environment, of systemd, or of redis-cli.
func (p *program) ambientPassword(t *open.Target) (string, bool) {
	if password, ok := os.LookupEnv("PAWL_PASSWORD"); ok && t.Takes("PAWL_PASSWORD") {
		return password, true
	}
	if name := credential(); name != "" && t.Takes("PAWL_PASSWORD") {
		if password, err := (&program{passwordFile: name, quiet: true, err: io.Discard}).readPassword(); err == nil {
			return password, true
		}
		p.note("cannot read %s", plain.Text(name))
	}
	if password, ok := os.LookupEnv("REDISCLI_AUTH"); ok && t.Takes("REDISCLI_AUTH") {
		return password, true
	}
	return "", false
}

// credential returns the file with the password that systemd has given this
// service (LoadCredential=pawl.password:...), empty if there is none.
func credential() string {
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return ""
	}
	name := filepath.Join(dir, "pawl.password")
	if _, err := os.Stat(name); err != nil {
		return ""
	}
	return name
}

// secrets are the variables that may have a password in them.
var secrets = []string{"PAWL_PASSWORD", "PAWL_SENTINEL_PASSWORD", "REDISCLI_AUTH"}
