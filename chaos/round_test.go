package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
)

// patience is how long beyond what is promised a machine that is busy may take.
const patience = 15 * time.Second

// A report is what a round found.
type report struct {
	wrong           []string
	holds, overlaps int
	record          *recorder
	samples         int64
}

// round starts servers and clients afresh, lets them work on one key while the
// fault strikes, heals, and checks. A second key has a witness: it holds when the
// fault strikes, and a challenger waits for it.
func round(t *testing.T, f fault, guarded bool, seed uint64, wrap func(driver.Backend, goredis.UniversalClient) driver.Backend) report {
	a := build(t, f, guarded, wrap)
	rec := a.rec
	out := report{record: rec}
	var mu sync.Mutex
	wrong := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		out.wrong = append(out.wrong, fmt.Sprintf(format, args...))
	}
	var workers, sampler sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sampling, stopSampling := context.WithCancel(t.Context())
	defer stopSampling()
	var samples atomic.Int64
	sampler.Go(func() { a.sampleKeys(sampling, f.holding(guarded).TTL, &samples, wrong) })
	var holds atomic.Int64
	for i := range 5 {
		s, r := a.stations[i%3], rand.New(rand.NewPCG(seed, uint64(i+1)))
		workers.Go(func() {
			for ctx.Err() == nil && holds.Load() < 250 {
				section(ctx, s.client, r, rec.granted, func(token uint64) { rec.write("k", token, time.Now()) }, &holds)
			}
		})
	}
	if a.child != nil {
		workers.Go(func() { a.child.serve(rec) })
	}
	if f.prepare != nil {
		f.prepare(a)
	}
	bound, end := context.WithTimeout(t.Context(), patience)
	defer end()
	var sent time.Time
	var witness *pawl.Lease
	for witness == nil { // an Acquire gives up when the store is in trouble for a TTL
		var err error
		sent = time.Now()
		if witness, err = a.stations[0].holder.Mutex("w").Acquire(bound); err != nil && bound.Err() != nil {
			t.Fatalf("the witness: %v", err)
		}
	}
	ended := rec.granted("w", witness.Holder(), witness.Token(), sent, time.Now())
	until := make(chan time.Time, 1)
	context.AfterFunc(witness.Context(), func() { until <- endOf(witness) })
	challenged := make(chan *pawl.Lease, 1)
	waiting, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	workers.Go(func() { challenge(waiting, a.stations[2].client, rec, challenged) })

	before, struck := a.count(f.met...), time.Now()
	f.strike(a, rand.New(rand.NewPCG(seed, 0)))
	at := time.Now()

	// Property 6: the old holder is told at its next renewal.
	told := func() bool { // within patience, since a connection may have to be made anew
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * ms) {
			call, cancel := context.WithTimeout(t.Context(), time.Second)
			err := witness.Renew(call)
			cancel()
			if err == nil || errors.Is(err, pawl.ErrLost) {
				return err != nil
			}
		}
		wrong("witness: no renewal was answered within %v of healing", patience)
		return true
	}()
	switch {
	case f.forgets && !told:
		wrong("witness: its lock was forgotten, and its next renewal said nothing")
	case f.outlasts && !told:
		wrong("witness: it was cut off for longer than its TTL, and holds its lock")
	case f.keeps && told:
		wrong("witness: it lost its lock, which nothing took away: %v", context.Cause(witness.Context()))
	}
	if told {
		end := <-until
		ended(end)
		if f.forgets && !guarded && end.Sub(struck) > f.holding(false).TTL-3*time.Second {
			wrong("witness: its lock was forgotten, and it was told by its own clock and not by a renewal")
		}
	} else {
		ended(endOf(witness))
		call, cancel := context.WithTimeout(t.Context(), patience)
		witness.Release(call)
		cancel()
	}
	longest := ttl + patience
	if guarded {
		longest += quarantine.MaxTTL + quarantine.Slack
	}
	select {
	case next := <-challenged:
		if next.Token() <= witness.Token() {
			wrong("witness: the next holder's token is %d after %d", next.Token(), witness.Token())
		}
	case <-time.After(longest):
		wrong("liveness: nobody got the witness's key within %v of healing", longest)
	}
	giveUp()
	// Property 5: somebody acquires again.
	holds.Store(min(holds.Load(), 230))
	for end := time.Now().Add(longest); !rec.lastAnswer("k").After(at); time.Sleep(5 * ms) {
		if time.Now().After(end) {
			wrong("liveness: nobody acquired within %v of healing", longest)
			break
		}
	}
	cancel()
	if a.child != nil {
		a.child.stop()
	}
	workers.Wait()
	for _, s := range a.stations {
		s.close()
	}
	a.duped.Wait()
	if f.met != nil && a.count(f.met...) == before {
		wrong("fault: no request met %q, so that it did not strike", f.met)
	}
	if f.struck != nil {
		if why := f.struck(a); why != "" {
			wrong("fault: it did not strike: %s", why)
		}
	}
	a.leftovers(wrong)
	stopSampling()
	sampler.Wait()
	if out.samples = samples.Load(); out.samples == 0 {
		wrong("no key was looked at")
	}
	found, overlaps := rec.check(f.excludes(guarded))
	out.wrong = append(out.wrong, found...)
	out.holds, out.overlaps = rec.history.Holds(), overlaps
	return out
}

// challenge acquires the witness's key, and tells of the lease before it lets go.
func challenge(ctx context.Context, client *pawl.Client, rec *recorder, got chan<- *pawl.Lease) {
	for ctx.Err() == nil {
		sent := time.Now()
		lease, err := client.Mutex("w").Acquire(ctx)
		if err != nil {
			time.Sleep(20 * ms)
			continue
		}
		ended := rec.granted("w", lease.Holder(), lease.Token(), sent, time.Now())
		select {
		case got <- lease:
		default:
		}
		select { // long enough to meet a witness that believes that it holds
		case <-lease.Context().Done():
		case <-time.After(400 * ms):
		}
		ended(endOf(lease))
		lease.Release(context.WithoutCancel(ctx))
		return
	}
}

// section acquires once, now and then with little patience, writes, and releases.
func section(ctx context.Context, client *pawl.Client, r *rand.Rand, granted func(key, id string, token uint64, sent, answered time.Time) func(time.Time), write func(uint64), holds *atomic.Int64) {
	wait := 2 * time.Second
	if r.IntN(4) == 0 {
		wait = time.Duration(r.Int64N(int64(40 * ms)))
	}
	short, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	sent := time.Now()
	lease, err := client.Mutex("k").Acquire(short)
	if err != nil {
		time.Sleep(5 * ms)
		return
	}
	holds.Add(1)
	ended := granted("k", lease.Holder(), lease.Token(), sent, time.Now())
	for range 1 + r.IntN(2) {
		if !lease.Valid() {
			break
		}
		write(lease.Token())
		select {
		case <-lease.Context().Done():
		case <-time.After(time.Duration(r.Int64N(int64(40 * ms)))):
		}
	}
	ended(endOf(lease))
	call, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	lease.Release(call)
}

// sampleKeys looks at all keys again and again: each ends by itself, fences within a
// day, and the rest soon after the longest TTL. The marker of a quarantine lives longer.
func (a *arena) sampleKeys(ctx context.Context, longest time.Duration, samples *atomic.Int64, wrong func(string, ...any)) {
	const script = `
local bad = {}
for _, k in ipairs(redis.call('KEYS', '*')) do
	local left = redis.call('PTTL', k)
	local most = tonumber(ARGV[1])
	if string.sub(k, 1, 11) == 'pawl.fence:' then most = 86400000 end
	if string.sub(k, 1, 10) ~= 'pawl.node:' and k ~= 'snapshot' and (left == -1 or left > most) then bad[#bad+1] = k .. ' ' .. left end
end
return bad`
	for ctx.Err() == nil {
		for _, s := range a.sampled() {
			v, err := s.Try("EVAL_RO", script, 0, (longest + 2*time.Second).Milliseconds())
			if err != nil {
				continue // it is down
			}
			samples.Add(1)
			if bad := v.([]any); len(bad) > 0 {
				wrong("keys: these don't end in time: %v", bad)
				return
			}
		}
		time.Sleep(20 * ms)
	}
}

// leftovers waits until nothing is left but fences and markers: claims that could
// not be withdrawn end with their TTL.
func (a *arena) leftovers(wrong func(string, ...any)) {
	var left []string
	for end := time.Now().Add(ttl + patience); ; time.Sleep(20 * ms) {
		left = nil
		for _, s := range a.sampled() {
			v, err := s.Try("KEYS", "*")
			if err != nil {
				continue
			}
			for _, k := range v.([]any) {
				if k := k.(string); !strings.HasPrefix(k, "pawl.fence:") && !strings.HasPrefix(k, "pawl.node:") {
					left = append(left, k)
				}
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			wrong("leftovers: %v", left)
			return
		}
	}
}
