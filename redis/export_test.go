package redis

import (
	"context"
	"time"

	"github.com/pawlock/pawl/driver"
)

// Names returns the names of the keys for key, the lock's first.
func Names(prefix, key string) []string { return names{prefix}.of(key).slice() }

// KeyOf is the inverse of Names.
func KeyOf(prefix, name string) (string, bool) { return names{prefix}.key(name) }

// Pattern returns what List scans for.
func Pattern(prefix, key string) string { return names{prefix}.pattern(key) }

// ScriptSums returns the SHA-1 sums of the scripts by name.
func ScriptSums() map[string]string {
	sums := make(map[string]string)
	for _, s := range []*script{acquireScript, renewScript, releaseScript, revokeScript, inspectScript} {
		sums[s.name] = s.sha
	}
	return sums
}

// DeriveTTL returns the TTL that what is left of a lock and of its fence tells.
func DeriveTTL(left, fenceLeft time.Duration) time.Duration { return ttl(left, fenceLeft) }

// ReadHolder reads the value of a lock, or a record.
func ReadHolder(id, record string, now time.Time) driver.Holder {
	if record == "" {
		return exclusiveHolder("k", id, now)
	}
	return recordHolder("k", id, record, now)
}

// PauseFor returns how long c waits uncalled.
func PauseFor(c driver.Claim, h *driver.HeldError) time.Duration { return pauseFor(c, h) }

// Remembered returns how many latches and channels b keeps for those who wait.
func Remembered(b driver.Backend) (latches, channels int) {
	s := b.(*backend).wakeup
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.latches), len(s.homes)
}

// A ServerClock is the clock of a backend.
type ServerClock struct{ clock }

// Learn takes note of an answer.
func (c *ServerClock) Learn(sent, server time.Time, must bool) { c.learn(sent, server, must) }

// Deadline returns the deadline of ctx on the server's clock, 0 for none.
func (c *ServerClock) Deadline(ctx context.Context) int64 { return c.deadline(ctx) }
