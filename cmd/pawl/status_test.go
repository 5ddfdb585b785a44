package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Lines that nobody reads are left out at the end, and their numbers say so to
// nobody: those that are read have no gap.
func TestEventsOfAReaderWhoIsFarBehind(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	e := newEvents("k", w)
	const many = 2 * eventsKept
	for range many {
		e.tell(event{Event: "renewed"})
	}
	began := time.Now()
	e.close()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("close took %v with nobody reading, want a second", took)
	}
	e.tell(event{Event: "released"}) // comes to nothing
	go func() {
		<-e.ended
		w.Close()
	}()
	var got []int
	for d := json.NewDecoder(r); ; {
		var v event
		if d.Decode(&v) != nil {
			break
		}
		got = append(got, v.Seq)
	}
	if len(got) < eventsKept || len(got) >= many {
		t.Errorf("got %d events, want at least the %d that are kept", len(got), eventsKept)
	}
	for i, seq := range got {
		if seq != i+1 {
			t.Fatalf("got number %d in place %d, want no gap", seq, i+1)
		}
	}
}

// U07 and U09, V04, V05, V07 and V19: what is passed on, and what is the
// wrapper's own. V44: nothing comes that nobody has sent.
func TestSignalsThatArePassedOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	run := startPawl(t, fileURL(t), "run", "--forward", "WINCH,36", "k", "--", "sh", "-c",
		`for s in HUP INT QUIT USR1 USR2 CONT WINCH URG PIPE PROF 36; do trap "echo $s >>\"$1\"" $s; done; trap 'echo TERM >>"$1"; exit 9' TERM
		touch "$1.ready"; while :; do sleep 0.01; done`, "sh", log)
	eventually(t, "the traps", func() bool { _, err := os.Stat(log + ".ready"); return err == nil })
	time.Sleep(500 * time.Millisecond) // what comes by itself has come
	if got := words(t, log); len(got) > 0 {
		t.Errorf("got %q, want no signal", got)
	}
	want := []string{}
	for _, s := range []struct {
		number syscall.Signal
		name   string // as the command is told it; empty if it is not
	}{
		{syscall.SIGURG, ""},
		{syscall.SIGPIPE, ""},
		{syscall.SIGHUP, "HUP"},
		{syscall.SIGCHLD, ""},
		{syscall.SIGINT, "INT"},
		{syscall.SIGQUIT, "QUIT"},
		{syscall.SIGUSR1, "USR1"},
		{syscall.SIGUSR2, "USR2"},
		{syscall.SIGCONT, "CONT"},
		{syscall.SIGWINCH, "WINCH"},
		{syscall.Signal(36), "36"},
		{syscall.SIGTERM, "TERM"},
	} {
		_ = run.cmd.Process.Signal(s.number)
		if s.name != "" {
			want = append(want, s.name)
			eventually(t, s.name, func() bool { return len(words(t, log)) >= len(want) })
		}
	}
	if ws := run.wait(); ws.ExitStatus() != 9 {
		t.Errorf("got wait status %#x, want the command's exit status 9", ws)
	}
	if got := words(t, log); !slices.Equal(got, want) {
		t.Errorf("got signals %q, want %q", got, want)
	}
}
