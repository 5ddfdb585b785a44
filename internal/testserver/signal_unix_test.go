//go:build unix

package testserver_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawlock/pawl/internal/testserver"
)

func TestAStoppedServerAnswersLater(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := s.Client()
	s.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Do(ctx, "SET", "k", "v"); err == nil {
		t.Error("a stopped server answers")
	}
	s.Continue()
	await(t, "the server has done what it was asked", func() bool { return s.Do("GET", "k") == "v" })
}
