package file_test

import (
	"testing"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/recipetest"
)

func TestRecipes(t *testing.T) {
	t.Parallel()
	recipetest.Run(t, recipetest.Harness{New: func(t *testing.T) func() driver.Backend {
		dir := inMemory(t)
		return func() driver.Backend { return open(t, dir) }
	}})
}
