package goredis_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// shebangs is a hook that takes the first line off every script, which holds
// the script flags: miniredis does not know them.
type shebangs struct {
	goredis.Hook
	sums sync.Map // of a script -> of the script without its first line
}

// ProcessHook implements goredis.Hook.
func (s *shebangs) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		args := cmd.Args()
		switch args[0] {
		case "eval":
			source := args[1].(string)
			_, rest, _ := strings.Cut(source, "\n")
			s.sums.Store(sum(source), sum(rest))
			args[1] = rest
		case "evalsha":
			if short, ok := s.sums.Load(args[1]); ok {
				args[1] = short
			}
		}
		return next(ctx, cmd)
	}
}

// DialHook implements goredis.Hook.
func (s *shebangs) DialHook(next goredis.DialHook) goredis.DialHook { return next }

// ProcessPipelineHook implements goredis.Hook.
func (s *shebangs) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func sum(s string) string {
	h := sha1.Sum([]byte(s))
	return hex.EncodeToString(h[:])
}
