package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
	"github.com/pawlock/pawl/driver"
)

// An outerLock is one of PAWL_LOCKS: a lock that the caller runs under.
type outerLock struct {
	Lock    string `json:"lock"`
	Mode    string `json:"mode"` // x, or s if it is shared
	Holder  string `json:"holder"`
	Fence   uint64 `json:"fence"`
	Backend string `json:"backend"` // without password
}

// outerLocks reads PAWL_LOCKS, outermost first. What is not ours is ignored.
func outerLocks() []outerLock {
	var locks []outerLock
	if json.Unmarshal([]byte(os.Getenv("PAWL_LOCKS")), &locks) != nil {
		return nil
	}
	return locks
}

// innermost returns the lock of PAWL_LOCKS on key that was acquired last.
func innermost(key string) (outerLock, bool) {
	var found outerLock
	ok := false
	for _, l := range outerLocks() {
		if l.Lock == key {
			found, ok = l, true
		}
	}
	return found, ok
}

// refuseDeadlock returns a failure if this process runs under a lock on one of
// keys that would have to end first. A holder that is gone is in nobody's way: the
// variable may have been inherited by a process that outlived its lock.
func (p *program) refuseDeadlock(s *store, keys []string) error {
	for _, key := range keys {
		for _, outer := range outerLocks() {
			if outer.Lock != key {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			h, err := find(ctx, s, key, outer.Holder)
			cancel()
			if err == nil && h != nil {
				return usage("%s is already held by this process chain (PAWL_LOCKS, holder %s): waiting would never end",
					plain.Quote(key), plain.Text(shortID(*h)))
			}
		}
	}
	return nil
}

// wholeLine asks Inspect for all there is.
const wholeLine = driver.MaxBlock

// find returns the claim of key that holds under the ID id, nil if none does.
func find(ctx context.Context, s *store, key, id string) (*pawl.Holder, error) {
	state, err := s.Inspect(ctx, key, wholeLine)
	if err != nil {
		return nil, err
	}
	for i := range state.Holders {
		if h := &state.Holders[i]; h.Held && !h.Foreign && h.ID == id {
			return h, nil
		}
	}
	return nil, nil
}
