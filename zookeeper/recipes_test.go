package zookeeper_test

import (
	"testing"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/recipetest"
	"github.com/pawlock/pawl/internal/testserver"
)

func TestRecipes(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t, 1)[0]
	recipetest.Run(t, recipetest.Harness{New: func(t *testing.T) func() driver.Backend {
		return func() driver.Backend { return connect(t, server.Addr) }
	}})
}
