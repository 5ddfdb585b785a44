package open

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/file"
	"github.com/pawlock/pawl/memory"
)

// Open returns the backend of t. A server is dialled when it is first needed,
// so that one which is down shows then; those of a quorum are asked for up to a
// second whether they are fit for it. Close of the backend also ends the
// connections that Open made.
func (t *Target) Open() (driver.Backend, error) {
	switch t.Scheme {
	case File:
		return file.New(t.Path)
	case Memory:
		return memory.New(nil), nil
	}
	switch {
	case t.zooKeeper():
		return t.openZooKeeper()
	case t.etcd():
		return t.openEtcd()
	}
	if len(t.Nodes) > 0 {
		return t.openQuorum()
	}
	return t.openRedis()
}

// Default returns the directory that is used where no URL is given: pawl in
// the user's state directory, and /var/lib/pawl for root.
func Default() (*Target, error) {
	state := os.Getenv("XDG_STATE_HOME")
	switch {
	case filepath.IsAbs(state): // a relative one is invalid, says its specification
	case os.Geteuid() == 0:
		state = "/var/lib"
	default:
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("there is no directory for the locks: %w (give one with --url file:///dir)", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return &Target{Scheme: File, Path: filepath.Join(state, "pawl")}, nil
}
