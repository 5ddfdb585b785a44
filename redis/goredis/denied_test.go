package goredis_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
)

// Whichever right is missing, wherever a script stops for it: no key stays for ever,
// and no lock is there without the token that it was granted with. Nor is something
// said to have been refused that was done. Case N01.
func TestAScriptThatStopsHalfWayLeavesNothingForEver(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	full := newClient(t, s.Addr)
	rule := aclRule(t)
	asUser := func(extra string) {
		var words []any
		for _, w := range append(rule, extra) {
			words = append(words, w)
		}
		s.Do(words...)
	}
	asUser("+get") // as it is
	denied := newClient(t, s.Addr, func(o *goredis.Options) {
		o.Username, o.Password, o.DisableIdentity = "locker", "secret", true
	})
	mutex := full.mutex
	share := func(weight int) driver.Claim {
		m := full.mutex("k")
		m.Weight, m.Capacity = weight, 4
		return m
	}
	queued := func(m driver.Claim) driver.Claim { m.Queue = true; return m }
	calls := []struct {
		name string
		call func(t *testing.T) error
	}{
		{"acquire of a free key", func(t *testing.T) error { _, err := denied.Acquire(t.Context(), mutex("k")); return err }},
		{"joining an empty line", func(t *testing.T) error {
			full.must(t, mutex("k"))
			_, err := denied.Acquire(t.Context(), queued(mutex("k")))
			return err
		}},
		{"first share", func(t *testing.T) error { _, err := denied.Acquire(t.Context(), share(1)); return err }},
		{"second share", func(t *testing.T) error {
			full.must(t, share(1))
			_, err := denied.Acquire(t.Context(), share(1))
			return err
		}},
		{"a share that calls the next", func(t *testing.T) error {
			first := queued(share(1))
			held := full.must(t, mutex("k"))
			full.Acquire(t.Context(), first)
			full.Acquire(t.Context(), queued(share(1)))
			full.release(t, held)
			_, err := denied.Acquire(t.Context(), first)
			return err
		}},
		{"downgrade", func(t *testing.T) error {
			held := full.must(t, mutex("k"))
			held.Weight, held.Capacity = 1, 4
			_, err := denied.Acquire(t.Context(), held)
			return err
		}},
		{"acquire after shares that have ended", func(t *testing.T) error {
			for range 3 {
				m := share(1)
				m.TTL = 10 * time.Millisecond
				full.must(t, m)
			}
			await(t, "they end", func() bool { return s.Do("EXISTS", keyOf("lock")) == int64(0) })
			_, err := denied.Acquire(t.Context(), share(1))
			return err
		}},
		{"renewal", func(t *testing.T) error { _, err := denied.Renew(t.Context(), full.must(t, mutex("k"))); return err }},
		{"renewal of a share", func(t *testing.T) error { _, err := denied.Renew(t.Context(), full.must(t, share(1))); return err }},
		{"release that calls the next", func(t *testing.T) error {
			held := full.must(t, mutex("k"))
			full.Acquire(t.Context(), queued(mutex("k")))
			full.Acquire(t.Context(), queued(mutex("k")))
			return denied.Release(t.Context(), held)
		}},
		{"release of a share", func(t *testing.T) error {
			held := full.must(t, share(3))
			full.must(t, share(1))
			full.Acquire(t.Context(), queued(share(2)))
			return denied.Release(t.Context(), held)
		}},
		{"release of the last share", func(t *testing.T) error { return denied.Release(t.Context(), full.must(t, share(3))) }},
		{"release that keeps a share", func(t *testing.T) error {
			held := full.must(t, share(3))
			held.Keep = time.Second
			return denied.Release(t.Context(), held)
		}},
		{"asking back", func(t *testing.T) error {
			return denied.Revoke(t.Context(), "k", full.must(t, mutex("k")).ID, driver.Notice{})
		}},
		{"forcing out", func(t *testing.T) error {
			held := full.must(t, mutex("k"))
			full.Acquire(t.Context(), queued(mutex("k")))
			return denied.Revoke(t.Context(), "k", held.ID, driver.Notice{Force: true})
		}},
		{"forcing a share out", func(t *testing.T) error {
			held := full.must(t, share(2))
			full.must(t, share(1))
			return denied.Revoke(t.Context(), "k", held.ID, driver.Notice{Force: true})
		}},
	}
	stopped := 0
	for _, w := range rule {
		command, ok := strings.CutPrefix(w, "+")
		if !ok || command == "hello" || command == "evalsha" || command == "eval" {
			continue
		}
		asUser("-" + command)
		for _, c := range calls {
			s.Do("FLUSHALL")
			s.Do("ACL", "LOG", "RESET")
			err := c.call(t)
			struck := len(s.Do("ACL", "LOG").([]any)) > 0
			if struck && command != "publish" {
				stopped++
				if err == nil {
					t.Errorf("%s without %s: got no error", c.name, command)
				}
			}
			if struck && errors.Is(err, driver.ErrRefused) {
				t.Errorf("%s without %s: got %v, which says that nothing was done", c.name, command, err)
			}
			for _, key := range s.Do("KEYS", "*").([]any) {
				if left := s.Do("PTTL", key); left == int64(-1) {
					t.Errorf("%s without %s: %v never ends (%v)", c.name, command, key, err)
				}
			}
			if lock, fence := fmt.Sprint(s.Do("GET", keyOf("lock"))), fmt.Sprint(s.Do("GET", keyOf("fence"))); lock != "<nil>" && fence == "<nil>" {
				t.Errorf("%s without %s: there is a lock %q, and no fence", c.name, command, lock)
			}
		}
	}
	t.Logf("%d calls were stopped half way", stopped)
	if stopped < 60 {
		t.Errorf("%d calls were stopped half way, want many more", stopped)
	}
}
