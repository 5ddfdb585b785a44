package bench_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/internal/testserver"
)

// TestRedlock compares locks on five Redis servers. Redsync with its defaults
// leaves time-outs to the client library, which has those of its own; with
// contexts it keeps to a twentieth of the TTL.
func TestRedlock(t *testing.T) {
	goredis.SetLogger(quiet{})
	s := newServers(t, 5)
	addrs := s.addrs()
	ours := newPawl(t, addrs)
	theirs := newRedsync(t, addrs, "redsync, contexts", true)
	defaults := newRedsync(t, addrs, "redsync", false)
	floor := newTwoScripts(t, addrs)
	r := newReport(t, "Redlock on five servers")

	r.throughput("Lock and unlock, nobody else wants the key", []*peer{ours, theirs, defaults, floor}, 1, 16)
	r.serverTime(s, ours, theirs, floor)
	var crowds [2][]*peer // processes, as far as the libraries can tell
	for range 5 {
		crowds[0] = append(crowds[0], newPawl(t, addrs))
		crowds[1] = append(crowds[1], newRedsync(t, addrs, "redsync, contexts", true))
	}
	r.contended(crowds[:]...)
	r.latency("all servers up", ours, theirs, defaults)
	sick := []*peer{ours}
	if *file != "" {
		sick = append(sick, theirs, defaults) // take up to a minute a lock
	}
	s.all[0].Stop()
	r.latency("one server stopped", sick...)
	s.all[0].Continue()
	s.all[0].Kill()
	r.latency("one server dead", sick...)
	s.all[0].Start()
	s.leftovers(r,
		func(a []string) *peer { return newPawl(t, a) },
		func(a []string) *peer { return newRedsync(t, a, "redsync", false) },
		func(a []string) *peer {
			return newRedsync(t, a, "redsync, contexts, fail fast", true, redsync.WithFailFast(true))
		})
}

// servers are the Redis servers of a comparison.
type servers struct{ all []*testserver.Redis }

func newServers(t testing.TB, n int) *servers {
	s := new(servers)
	for range n {
		s.all = append(s.all, testserver.StartRedis(t, testserver.RedisOptions{}))
	}
	return s
}

func (s *servers) addrs() (addrs []string) {
	for _, r := range s.all {
		addrs = append(addrs, r.Addr)
	}
	return addrs
}

// throughput counts what each peer does a second with so many goroutines, each
// with a key of its own.
func (r *report) throughput(title string, peers []*peer, goroutines ...int) {
	table := r.table(title, "goroutines", "library", "a second", "of pawl's", "pawl in one round")
	for _, n := range goroutines {
		rates := make([][]float64, len(peers))
		ours := new(shares)
		for round := range *rounds {
			for i := range peers {
				i = (i + round) % len(peers) // none is always the first
				p := peers[i]
				before := ours.mark(p)
				rates[i] = append(rates[i], r.rate(p, n))
				ours.add(p, before)
			}
		}
		for i, p := range peers {
			var ratios []float64
			for round := range rates[i] {
				ratios = append(ratios, rates[i][round]/rates[0][round])
			}
			table.row(n, p.name, fmt.Sprintf("%.0f", median(rates[i])), fmt.Sprintf("%.2f", median(ratios)), ours.of(p))
		}
	}
}

// rate returns how many locks p takes and lets go in a second.
func (r *report) rate(p *peer, goroutines int) float64 {
	var all sync.WaitGroup
	var done atomic.Int64
	warm(r.t, p, r.guard, goroutines)
	began := time.Now()
	end := began.Add(*period)
	for i := range goroutines {
		all.Go(func() {
			for key := fmt.Sprint("k", i); time.Now().Before(end); {
				if _, _, err := p.cycle(r.guard, key); err != nil {
					r.t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}

// warm opens the connections.
func warm(t testing.TB, p *peer, g *guard, goroutines int) {
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() {
			if _, _, err := p.cycle(g, fmt.Sprint("k", i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// shares counts how many acquires took one round.
type shares struct{ acquires, rounds int64 }

func (s *shares) mark(p *peer) (m shares) {
	if p.acquires != nil {
		m = shares{p.acquires.Load(), p.rounds.Load()}
	}
	return m
}

func (s *shares) add(p *peer, before shares) {
	now := s.mark(p)
	s.acquires += now.acquires - before.acquires
	s.rounds += now.rounds - before.rounds
}

func (s *shares) of(p *peer) string {
	if p.acquires == nil || s.acquires == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f %%", 100*float64(2*s.acquires-s.rounds)/float64(s.acquires))
}

// latency measures what one goroutine waits for.
func (r *report) latency(state string, peers ...*peer) {
	table := r.table("What one caller waits for, "+state, "library", "locks", "acquire p50", "p99", "release p50", "p99")
	acquired, released := make([][]time.Duration, len(peers)), make([][]time.Duration, len(peers))
	for _, p := range peers {
		r.sample(p, 1) // what the first request to a dead server costs is not the steady state
	}
	for round := range *rounds {
		for i := range peers {
			i = (i + round) % len(peers)
			a, b := r.sample(peers[i], 400)
			acquired[i], released[i] = append(acquired[i], a...), append(released[i], b...)
		}
	}
	for i, p := range peers {
		table.row(p.name, len(acquired[i]), quantile(acquired[i], 50), quantile(acquired[i], 99), quantile(released[i], 50), quantile(released[i], 99))
	}
}

// sample takes up to n locks, one after the other, for a round's time at most.
func (r *report) sample(p *peer, n int) (acquired, released []time.Duration) {
	for began := time.Now(); len(acquired) < n && time.Since(began) < *period; {
		a, b, err := p.cycle(r.guard, "latency")
		if err != nil {
			r.t.Error(err)
			return
		}
		acquired, released = append(acquired, a), append(released, b)
	}
	return acquired, released
}

// contended lets crowds fight for one key. Who has had it lets another have it
// before asking again: the time between is how long a waiter takes to notice.
func (r *report) contended(crowds ...[]*peer) {
	const hold = 5 * time.Millisecond
	table := r.table(fmt.Sprintf("%d clients that want one key, each for %v", len(crowds[0]), hold), "library", "hand-overs", "from the release to another's acquire, p50", "p99", "longest wait")
	gaps, waits := make([][]time.Duration, len(crowds)), make([]time.Duration, len(crowds))
	for round := range *rounds {
		for i := range crowds {
			i = (i + round) % len(crowds)
			g, w := r.handOver(crowds[i], hold)
			gaps[i], waits[i] = append(gaps[i], g...), max(waits[i], w)
		}
	}
	for i, crowd := range crowds {
		if len(gaps[i]) > 0 { // none in a short run
			table.row(crowd[0].name, len(gaps[i]), quantile(gaps[i], 50), quantile(gaps[i], 99), waits[i].Round(time.Millisecond))
		}
	}
}

// handOver plays one round of a crowd, and returns the times between holds and
// the longest that anyone waited.
func (r *report) handOver(crowd []*peer, hold time.Duration) (gaps []time.Duration, longest time.Duration) {
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		freed time.Time
		taken = make(chan struct{})
	)
	end := time.Now().Add(*period)
	over := time.After(*period)
	stop := make(chan struct{})
	go func() {
		<-over
		close(stop)
	}()
	for _, p := range crowd {
		all.Go(func() {
			for time.Now().Before(end) {
				waited, err := p.occupy(r.guard, "contended", func() {
					mu.Lock()
					if !freed.IsZero() {
						gaps = append(gaps, time.Since(freed))
					}
					close(taken)
					taken = make(chan struct{})
					mu.Unlock()
					time.Sleep(hold)
					mu.Lock()
					freed = time.Now()
					mu.Unlock()
				})
				if err != nil {
					r.t.Error(err)
					return
				}
				mu.Lock()
				longest = max(longest, waited)
				next := taken
				mu.Unlock()
				select {
				case <-next:
				case <-stop:
				}
			}
		})
	}
	all.Wait()
	return gaps, longest
}

var (
	// commandTime matches what a command has cost since the last CONFIG RESETSTAT.
	commandTime = regexp.MustCompile(`cmdstat_(\w+):calls=\d+,usec=(\d+)`)

	// processorTime matches what a server has used of a processor.
	processorTime = regexp.MustCompile(`used_cpu_(?:sys|user):([0-9.]+)`)
)

// serverTime tells what a lock costs the servers: in their commands, and of their
// processors with what it takes to read requests and to answer.
func (r *report) serverTime(s *servers, peers ...*peer) {
	table := r.table("Time in the five servers together, for one lock", "library", "commands that acquire", "commands that release", "processor, all in all")
	// A script's time has that of the commands in it, which are counted by
	// themselves too. Only what a library sends itself may be added up.
	commands := func(sent ...string) (total time.Duration) {
		for _, server := range s.all {
			for _, m := range commandTime.FindAllStringSubmatch(server.Do("INFO", "commandstats").(string), -1) {
				if usec, _ := strconv.ParseInt(m[2], 10, 64); slices.Contains(sent, m[1]) {
					total += time.Duration(usec) * time.Microsecond
				}
			}
			server.Do("CONFIG", "RESETSTAT")
		}
		return total
	}
	processors := func() (total time.Duration) {
		for _, server := range s.all {
			for _, m := range processorTime.FindAllStringSubmatch(server.Do("INFO", "cpu").(string), -1) {
				seconds, _ := strconv.ParseFloat(m[1], 64)
				total += time.Duration(seconds * float64(time.Second))
			}
		}
		return total
	}
	n := time.Duration(*batch)
	for _, p := range peers {
		warm(r.t, p, r.guard, 1)
		time.Sleep(100 * time.Millisecond)
		commands()
		before := processors()
		var unlocks []func(context.Context) error
		for i := range *batch {
			unlock, _, err := p.lock(r.t.Context(), fmt.Sprint("cost", i))
			if err != nil {
				r.t.Error(err)
				return
			}
			unlocks = append(unlocks, unlock)
		}
		time.Sleep(100 * time.Millisecond)
		acquire := commands(p.takes...)
		for _, unlock := range unlocks {
			if err := unlock(r.t.Context()); err != nil {
				r.t.Error(err)
			}
		}
		time.Sleep(100 * time.Millisecond)
		release := commands("evalsha", "eval")
		table.row(p.name, (acquire / n).Round(time.Microsecond), (release / n).Round(time.Microsecond), ((processors() - before) / n).Round(time.Microsecond))
	}
}

// leftovers tells whose keys are left a second after the last of a hundred
// releases when two of the servers answer after anything up to 100 ms.
func (s *servers) leftovers(r *report, makers ...func(addrs []string) *peer) {
	locks := *batch / 5
	table := r.table("Two of the servers answer up to 100 ms late", "library", "locks", "of which left a key, a second after the last release")
	for _, maker := range makers {
		addrs := s.addrs()
		var slow []*testserver.Proxy
		for i := range 2 {
			p := testserver.StartProxy(r.t, addrs[i])
			addrs[i] = p.Addr
			slow = append(slow, p)
		}
		p := maker(addrs)
		for i := range locks {
			if _, _, err := p.cycle(r.guard, fmt.Sprint("left", i)); err != nil {
				r.t.Error(err)
			}
			for _, proxy := range slow { // the first lock opened the connections
				proxy.Delay(testserver.Requests, rand.N(50*time.Millisecond))
				proxy.Delay(testserver.Replies, rand.N(50*time.Millisecond))
			}
		}
		time.Sleep(time.Second)
		left := make(map[any]bool)
		for _, server := range s.all {
			for _, key := range server.Do("KEYS", p.keys).([]any) {
				left[key] = true
				server.Do("DEL", key)
			}
		}
		if p.acquires != nil && len(left) > 0 {
			r.t.Errorf("%s: got %d locks with a key left, want none", p.name, len(left))
		}
		table.row(p.name, locks, len(left))
	}
}
