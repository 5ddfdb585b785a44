package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

// A promise is whether locks exclude each other under a fault.
type promise string

// The words of docs/guarantees.md. That tokens rise is promised under all faults.
const (
	always      promise = "yes"
	quarantined promise = "with a quarantine"
	never       promise = "no"
)

// A fault is a row of the table in docs/guarantees.md under "Under faults".
type fault struct {
	name      string
	exclusion promise
	forgets   bool // what the witness holds is lost, and the server tells
	outlasts  bool // what the witness holds is lost since it is cut off for too long
	keeps     bool // what the witness holds survives
	layout    layout
	prepare   func(*arena)             // before the witness acquires
	strike    func(*arena, *rand.Rand) // and heal

	// A fault that does nothing shows nothing.
	met    []string            // what requests of clients meet, one of them at least
	struck func(*arena) string // what else is missing, "" if nothing is
}

// holding returns the options of the witness. Where a server is to tell that it has
// lost the lock, the TTL must not be over first; where replies are late, they must not
// be too late to count; and where nothing takes the lock away, a machine that is busy
// must not.
func (f *fault) holding(guarded bool) *pawl.Options {
	switch {
	case f.forgets && !guarded, f.keeps:
		return &pawl.Options{TTL: 30 * time.Second, RenewEvery: 300 * ms}
	case f.outlasts:
		return &pawl.Options{TTL: 3 * time.Second, RenewEvery: 300 * ms}
	}
	return &pawl.Options{TTL: ttl}
}

// excludes reports whether locks exclude each other under f.
func (f *fault) excludes(guarded bool) bool {
	return f.exclusion == always || f.exclusion == quarantined && guarded
}

func pause(r *rand.Rand, least, most time.Duration) {
	time.Sleep(least + time.Duration(r.Int64N(int64(most-least))))
}

const ms = time.Millisecond

var faults = []fault{
	{name: "kill -9 and empty restart", exclusion: quarantined, forgets: true, met: []string{broken}, strike: func(a *arena, r *rand.Rand) { // G07 on one server
		a.server.Kill()
		pause(r, 0, 200*ms)
		a.server.Start()
	}},
	{name: "restart from a stale RDB", exclusion: quarantined, forgets: true, met: []string{broken},
		prepare: func(a *arena) {
			a.server.Do("SET", "snapshot", "x", "PX", ttl.Milliseconds()*20)
			a.server.Do("SAVE")
			a.server.Do("DEL", "snapshot")
		},
		strike: func(a *arena, r *rand.Rand) {
			a.server.Kill()
			pause(r, 0, 200*ms)
			a.server.Start()
			if a.server.Do("DEL", "snapshot") != int64(1) {
				a.t.Error("the server has not what was in the snapshot")
			}
		}},
	{name: "SIGSTOP of the server", exclusion: always, met: []string{slow, broken}, strike: func(a *arena, r *rand.Rand) { // D13
		for range 2 {
			a.server.Stop()
			if a.answers() {
				a.t.Error("the server that was stopped answers")
			}
			pause(r, 200*ms, 1400*ms)
			a.server.Continue()
			pause(r, 100*ms, 300*ms)
		}
	}},
	{name: "CLIENT PAUSE", exclusion: always, met: []string{slow, broken}, strike: func(a *arena, r *rand.Rand) {
		for _, mode := range []string{"WRITE", "ALL"} {
			a.server.Do("CLIENT", "PAUSE", 200+r.IntN(700), mode)
			pause(r, 900*ms, 1100*ms)
		}
	}},
	{name: "DEBUG SLEEP", exclusion: always, met: []string{slow, broken}, strike: func(a *arena, r *rand.Rand) {
		for range 3 {
			a.server.Do("DEBUG", "SLEEP", fmt.Sprint(0.2+r.Float64()/2))
			pause(r, 0, 200*ms)
		}
	}},
	{name: "FLUSHALL", exclusion: quarantined, forgets: true, strike: func(a *arena, _ *rand.Rand) { a.server.Do("FLUSHALL") }},
	{name: "SCRIPT FLUSH", exclusion: always, keeps: true, met: []string{"NOSCRIPT"}, strike: func(a *arena, r *rand.Rand) { // N04
		for range 40 {
			a.server.Do("SCRIPT", "FLUSH")
			pause(r, 0, 50*ms)
		}
	}},
	{name: "eviction (allkeys-lru)", exclusion: never, forgets: true, strike: func(a *arena, _ *rand.Rand) { // N02
		a.server.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
		a.server.Do("CONFIG", "SET", "maxmemory", "1")
		a.until("the lock is evicted", func() bool { return a.server.Do("EXISTS", "lock:w") == int64(0) })
		a.server.Do("CONFIG", "SET", "maxmemory", "0")
	}},
	{name: "out of memory (noeviction)", exclusion: always, keeps: true, met: []string{"OOM"}, strike: func(a *arena, r *rand.Rand) { // N03
		before := a.count("OOM")
		a.server.Do("CONFIG", "SET", "maxmemory", "1")
		pause(r, 500*ms, 1500*ms)
		a.until("somebody is refused", func() bool { return a.count("OOM") > before })
		a.server.Do("CONFIG", "SET", "maxmemory", "0")
	}},
	{name: "dropped replies", exclusion: always, met: []string{broken}, struck: func(a *arena) string {
		if a.stations[0].proxy.Lost(testserver.Replies) == 0 {
			return "no reply was lost"
		}
		return ""
	}, strike: func(a *arena, r *rand.Rand) { // H05
		for range 3 {
			v := a.victims(r)
			for _, p := range v {
				p.Drop(testserver.Replies)
			}
			pause(r, 50*ms, 400*ms)
			for _, p := range v {
				p.Cut()
				p.Heal()
				p.Cut()
			}
			pause(r, 50*ms, 200*ms)
		}
	}},
	{name: "duplicated requests", exclusion: always, keeps: true, layout: layout{twice: true}, struck: func(a *arena) string {
		if a.dupes.Load() == 0 {
			return "no request was sent twice"
		}
		return ""
	}, strike: func(a *arena, r *rand.Rand) {
		pause(r, 1500*ms, 2000*ms)
	}},
	{name: "blackholed connections", exclusion: always, outlasts: true, met: []string{broken}, strike: func(a *arena, r *rand.Rand) { // A01, A14
		v := a.victims(r)
		for _, p := range v {
			p.Delay(testserver.Replies, 300*ms) // what was renewed is known late
		}
		pause(r, 1000*ms, 1300*ms)
		for _, p := range v {
			p.Blackhole()
		}
		pause(r, 3400*ms, 3900*ms)
		for _, p := range v {
			p.Heal()
		}
	}},
	{name: "reset connections", exclusion: always, met: []string{broken}, strike: func(a *arena, r *rand.Rand) {
		before := a.count(broken)
		for i := 0; i < 20 || i < 500 && a.count(broken) == before; i++ { // a connection that is idle is replaced in silence
			for _, p := range a.victims(r) {
				p.Reset()
			}
			pause(r, 10*ms, 100*ms)
		}
	}},
	{name: "promotion of a replica without the lock", exclusion: quarantined, forgets: true, met: []string{broken}, layout: layout{replica: true}, // G01
		prepare: func(a *arena) {
			host, port, _ := strings.Cut(a.server.Addr, ":")
			a.replica.Do("REPLICAOF", host, port)
			a.until("the replica follows", func() bool {
				return strings.Contains(a.replica.Do("INFO", "replication").(string), "master_link_status:up")
			})
			a.replica.Do("REPLICAOF", "127.0.0.1", "1") // it hears no more
		},
		strike: func(a *arena, r *rand.Rand) {
			a.server.Kill()
			pause(r, 0, 300*ms)
			a.sample(a.replica)
			a.replica.Do("REPLICAOF", "NO", "ONE")
			for _, s := range a.stations {
				s.proxy.Retarget(a.replica.Addr)
				s.proxy.Cut()
			}
		}},
	{name: "Sentinel failover", exclusion: quarantined, forgets: true, met: []string{broken}, layout: layout{sentinel: true}, // G01
		prepare: func(a *arena) {
			// The replica hears of nothing that comes now. It has to be stopped, or it
			// would be back at once, and its link cut, or what was sent would be read later.
			a.sentinel.Servers[1].Stop()
			a.server.Do("CLIENT", "KILL", "TYPE", "replica")
		},
		strike: func(a *arena, _ *rand.Rand) {
			a.server.Kill()
			a.sentinel.Servers[1].Continue()
			a.sample(a.sentinel.Master(a.server))
		}},
	{name: "Cluster failover", exclusion: never, met: []string{broken, "CLUSTERDOWN"}, layout: layout{cluster: 2}, strike: func(a *arena, _ *rand.Rand) {
		a.cluster.Master("lock:k").Kill()
		a.until("the replica is promoted", func() bool {
			master := a.cluster.Master("lock:k")
			_, err := master.Try("PING")
			info, _ := master.Try("CLUSTER", "INFO")
			text, _ := info.(string)
			return err == nil && strings.Contains(text, "cluster_state:ok")
		})
	}},
	{name: "Cluster slot migration", exclusion: always, keeps: true, layout: layout{cluster: 1}, struck: func(a *arena) string {
		if a.refusals("MOVED", "ASK", "TRYAGAIN") == 0 {
			return "no server said that a slot moves, or has"
		}
		return ""
	}, strike: func(a *arena, r *rand.Rand) { // K01
		for _, key := range []string{"lock:k", "lock:w"} {
			from := a.cluster.Master(key)
			to := a.cluster.Nodes[(slices.Index(a.cluster.Nodes, from)+1)%3]
			slot := a.cluster.Slot(key)
			a.cluster.BeginMove(slot, from, to)
			pause(r, 50*ms, 200*ms)
			a.cluster.EndMove(slot, from, to)
		}
	}},
	{name: "ACL denials", exclusion: always, layout: layout{acl: true}, strike: func(a *arena, r *rand.Rand) { // N01, N05
		for _, w := range rights(a.t) {
			c, ok := strings.CutPrefix(w.(string), "+")
			if ok && c != "hello" { // that comes before the user is known
				a.server.Do("ACL", "LOG", "RESET")
				a.server.Do("ACL", "SETUSER", a.user, "-"+c)
				began := time.Now()
				a.until(c+" is denied", func() bool {
					a.tour(c, r)
					return fmt.Sprint(a.server.Do("ACL", "LOG")) != "[]"
				})
				time.Sleep(max(0, 20*ms-time.Since(began)))
				a.server.Do("ACL", "SETUSER", a.user, "+"+c)
			}
		}
	}},
	{name: "password rotated", exclusion: always, keeps: true, met: []string{"WRONGPASS"}, layout: layout{acl: true}, strike: func(a *arena, r *rand.Rand) {
		for i := range 2 {
			next := fmt.Sprint("secret", i)
			a.server.Do("ACL", "SETUSER", a.user, "resetpass", ">"+next)
			before := a.count("WRONGPASS")
			a.server.Do("CLIENT", "KILL", "USER", a.user)
			pause(r, 50*ms, 200*ms)
			a.until("somebody comes with the old password", func() bool { return a.count("WRONGPASS") > before })
			a.password.Store(next)
			pause(r, 200*ms, 400*ms)
		}
	}},
	{name: "holder paused", exclusion: always, keeps: true, layout: layout{child: true}, strike: func(a *arena, r *rand.Rand) { // A01
		for range 2 {
			a.child.awaitHold(a.t)
			a.child.cmd.Process.Signal(syscall.SIGSTOP)
			stopped := time.Now()
			pause(r, ttl+100*ms, ttl+600*ms)
			a.until("another holds what the child held", func() bool { return a.rec.lastAnswer("k").After(stopped) })
			a.child.cmd.Process.Signal(syscall.SIGCONT)
			pause(r, 100*ms, 300*ms)
		}
	}},
}

// answers reports whether the server answers soon.
func (a *arena) answers() bool {
	ctx, cancel := context.WithTimeout(a.t.Context(), 50*ms)
	defer cancel()
	c, err := testserver.Dial(ctx, a.server.Addr)
	if err != nil {
		return false
	}
	defer c.Close()
	_, err = c.Do(ctx, "PING")
	return err == nil
}

// tour does a little of all that clients do, over a connection of its own, so that
// each command of theirs is run soon.
func (a *arena) tour(denied string, r *rand.Rand) {
	rdb := a.dial("")
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Second)
	defer cancel()
	if denied == "ping" { // only a subscription that is silent for seconds sends it
		rdb.Ping(ctx)
		return
	}
	b := adapter.New(rdb)
	defer b.Close()
	key, ids := fmt.Sprint("t", r.IntN(5)), driver.NewIdentity("tour")
	for i := range 3 {
		c := driver.Claim{Key: key, ID: ids.Next(), Weight: 1 + i, Capacity: 3, TTL: ttl, Queue: true}
		var h *driver.HeldError
		if _, err := b.Acquire(ctx, c); errors.As(err, &h) {
			b.Wait(ctx, c, h)
			c.Grant, _ = b.Acquire(ctx, c)
		} else if err == nil {
			c.Grant, _ = b.Renew(ctx, c)
		}
		b.Inspect(ctx, key, 1)
		if c.Keep = time.Duration(i) * 10 * ms; i > 0 {
			defer b.Release(ctx, c)
		}
	}
	for range b.List(ctx, "") {
		break
	}
}

func (a *arena) until(what string, done func() bool) {
	a.t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * ms) {
		if time.Now().After(end) {
			a.t.Fatalf("%s: not after 20s", what)
		}
	}
}
