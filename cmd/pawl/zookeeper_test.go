package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawlock/pawl/internal/testserver"
)

// The session of a command that has ended is nobody's: its claims go on by their
// TTL, and can be renewed and released by others.
func TestCommandsOnZooKeeper(t *testing.T) {
	server := testserver.StartZooKeeper(t, 1)[0]
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/zookeeper",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", quickEnd)
			env.Setenv("PAWL_URL", "zk://"+server.Addr+"/test?tick=100ms")
			env.Setenv("GUARDED", "zk://locker:secret@"+server.Addr+"/guarded?tick=100ms")
			env.Setenv("WRONG", "zk://locker:wrong@"+server.Addr+"/guarded?tick=100ms")
			return nil
		},
	})
}
