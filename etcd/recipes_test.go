package etcd_test

import (
	"testing"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/etcd"
	"github.com/pawlock/pawl/internal/recipetest"
	"github.com/pawlock/pawl/internal/testserver"
)

func TestRecipes(t *testing.T) {
	t.Parallel()
	server := testserver.StartEtcd(t, testserver.EtcdOptions{})[0]
	recipetest.Run(t, recipetest.Harness{New: func(t *testing.T) func() driver.Backend {
		return func() driver.Backend { return etcd.New(connect(t, server.Addr), nil) }
	}})
}
