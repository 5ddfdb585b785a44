package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawlock/pawl/internal/testserver"
)

func TestCommandsOnEtcd(t *testing.T) {
	server := testserver.StartEtcd(t, testserver.EtcdOptions{})[0]
	etcdctl := testserver.EtcdProgram(t, "etcdctl", false)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/etcd",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", quickEnd)
			env.Setenv("PAWL_URL", "etcd://127.0.0.1:1,"+server.Addr)
			env.Setenv("ETCDCTL", etcdctl)
			env.Setenv("ETCDCTL_API", "3")
			env.Setenv("ETCDCTL_ENDPOINTS", server.Addr)
			return nil
		},
	})
}
