package memory_test

import (
	"testing"
	"testing/synctest"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/recipetest"
	"github.com/pawlock/pawl/memory"
)

func TestRecipes(t *testing.T) {
	recipetest.Run(t, recipetest.Harness{
		New: func(*testing.T) func() driver.Backend {
			store := new(memory.Store)
			return func() driver.Backend { return memory.New(store) }
		},
		Wrap: synctest.Test,
	})
}
