package bench_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pawlock/pawl/internal/testserver"
)

// A crowd that lives in several processes has this test binary run again, with
// these flags.
var (
	member = flag.String("member", "", "be a member of a crowd: the library")
	addr   = flag.String("addr", "", "the server of a member")
	key    = flag.String("key", "", "the key that a member wants")
	inside = flag.Duration("inside", 0, "how long a member keeps the key")
	start  = flag.Int64("start", 0, "when a member begins, in Unix nanoseconds")
)

// TestMember is one process of a crowd.
func TestMember(t *testing.T) {
	if *member == "" {
		t.Skip("it is run by TestSingle")
	}
	makers := map[string]func() *peer{
		"pawl":      func() *peer { return newPawlOnOne(t, []string{*addr}) },
		"redsync":   func() *peer { return newRedsync(t, []string{*addr}, "redsync", true) },
		"redislock": func() *peer { return newRedislock(t, []string{*addr}) },
	}
	p := makers[*member]()
	time.Sleep(time.Until(time.Unix(0, *start)))
	locks, waits := rush(t, newGuard(t), p, *key, 8, *inside)
	if err := json.NewEncoder(os.Stdout).Encode(share{locks, waits}); err != nil {
		t.Fatal(err)
	}
}

// A share is what one process had of a crowd's locks.
type share struct {
	Locks []float64 // of each goroutine
	Waits []time.Duration
}

// rush lets n goroutines want one key for a period.
func rush(t testing.TB, g *guard, p *peer, key string, n int, inside time.Duration) (locks []float64, _ []time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), *period)
	defer cancel()
	locks = make([]float64, n)
	waits := make([][]time.Duration, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for ctx.Err() == nil {
				asked := time.Now()
				unlock, token, err := p.lock(ctx, key)
				waits[i] = append(waits[i], time.Since(asked)) // one that was not over, too
				if err != nil {
					return
				}
				g.enter(p, key, token)
				if inside > 0 {
					time.Sleep(inside)
				}
				g.leave(p, key)
				locks[i]++
				if err := unlock(context.WithoutCancel(ctx)); err != nil {
					t.Errorf("%s: unlock: %v", p.name, err)
				}
			}
		})
	}
	all.Wait()
	return locks, slices.Concat(waits...)
}

// processes lets a crowd of eight processes want one key.
func (r *report) processes(p *peer, addr, key string, inside time.Duration) (shares []share) {
	shares = make([]share, 8)
	var all sync.WaitGroup
	begin := time.Now().Add(2 * time.Second) // until all have started
	for i := range shares {
		all.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestMember$", "-member="+p.name, "-addr="+addr, "-key="+key,
				"-inside="+inside.String(), "-period="+period.String(), fmt.Sprint("-start=", begin.UnixNano()))
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err == nil {
				err = json.Unmarshal(out[:slices.Index(out, '\n')+1], &shares[i])
			}
			if err != nil {
				r.t.Errorf("%s: a process of the crowd: %v: %s", p.name, err, out)
			}
		})
	}
	all.Wait()
	return shares
}

// crowded lets n goroutines of this process, or eight processes if n is 0, want
// one key for the given time each.
func (r *report) crowded(server *testserver.Redis, who string, inside time.Duration, n int, peers ...*peer) {
	title := fmt.Sprintf("%s that want one key, each for %v", who, inside)
	table := r.table(title, "library", "locks a second", "pawl's is so much more", "in use", "wait p50", "p99", "longest", "Jain of goroutines", "of processes", "without a lock", "requests a lock")
	runs := make([][]turnout, len(peers))
	for round := range *rounds {
		for i := range peers {
			i = (i + round) % len(peers)
			p, key := peers[i], fmt.Sprintf("%s, round %d", title, round)
			before := requests(server, p)
			var shares []share
			if n > 0 {
				locks, waits := rush(r.t, r.guard, p, key, n, inside)
				shares = []share{{locks, waits}}
			} else {
				shares = r.processes(p, server.Addr, key, inside)
			}
			runs[i] = append(runs[i], count(shares, requests(server, p)-before))
		}
	}
	for i, p := range peers {
		all := func(f func(turnout) float64) (x []float64) {
			for _, run := range runs[i] {
				x = append(x, f(run))
			}
			return x
		}
		var ratios []float64
		var waits []time.Duration
		starved := 0
		for round, run := range runs[i] {
			ratios = append(ratios, runs[0][round].rate/run.rate)
			waits = append(waits, run.waits...)
			starved += run.starved
		}
		use := ""
		if inside > 0 {
			use = fmt.Sprintf("%.0f %%", 100*inside.Seconds()*median(all(func(t turnout) float64 { return t.rate })))
		}
		table.row(p.name, fmt.Sprintf("%.0f", median(all(func(t turnout) float64 { return t.rate }))), fmt.Sprintf("%.1f", median(ratios)), use,
			quantile(waits, 50), quantile(waits, 99), quantile(waits, 100),
			fmt.Sprintf("%.3f", median(all(func(t turnout) float64 { return t.jain }))), fmt.Sprintf("%.3f", median(all(func(t turnout) float64 { return t.among }))),
			starved, fmt.Sprintf("%.2f", median(all(func(t turnout) float64 { return t.requests }))))
	}
}

// A turnout is what came of a crowd.
type turnout struct {
	rate        float64 // locks a second
	jain, among float64 // how equal the shares of goroutines and of processes are: 1 is all equal
	starved     int     // goroutines without a lock
	requests    float64 // to the server, for one lock
	waits       []time.Duration
}

func count(shares []share, requests int64) (t turnout) {
	var goroutines, processes []float64
	for _, s := range shares {
		goroutines = append(goroutines, s.Locks...)
		processes = append(processes, sum(s.Locks))
		t.waits = append(t.waits, s.Waits...)
	}
	for _, x := range goroutines {
		if x == 0 {
			t.starved++
		}
	}
	total := sum(goroutines)
	t.rate, t.requests = total/period.Seconds(), float64(requests)/total
	t.jain, t.among = jain(goroutines), jain(processes)
	return t
}

// jain is Jain's index of fairness.
func jain(x []float64) float64 {
	var squares float64
	for _, v := range x {
		squares += v * v
	}
	return sum(x) * sum(x) / (float64(len(x)) * squares)
}

func sum(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

var commandCalls = regexp.MustCompile(`cmdstat_(\w+):calls=(\d+)`)

// requests counts what clients have sent to acquire and to release. Commands that
// a script runs are counted by the server as well, and are not meant.
func requests(server *testserver.Redis, p *peer) (n int64) {
	for _, m := range commandCalls.FindAllStringSubmatch(server.Do("INFO", "commandstats").(string), -1) {
		if calls, _ := strconv.ParseInt(m[2], 10, 64); slices.Contains(p.takes, m[1]) || m[1] == "evalsha" || m[1] == "eval" {
			n += calls
		}
	}
	return n
}
