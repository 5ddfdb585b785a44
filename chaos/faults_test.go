package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pawlock/pawl/internal/testserver"
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
	forgets   bool // what the witness holds is lost
	keeps     bool // what the witness holds survives
	layout    layout
	prepare   func(*arena)             // before the witness acquires
	strike    func(*arena, *rand.Rand) // and heal
}

func pause(r *rand.Rand, least, most time.Duration) {
	time.Sleep(least + time.Duration(r.Int64N(int64(most-least))))
}

const ms = time.Millisecond

var faults = []fault{
	{name: "kill -9 and empty restart", exclusion: quarantined, forgets: true, strike: func(a *arena, r *rand.Rand) { // G07 on one server
		a.server.Kill()
		pause(r, 0, 200*ms)
		a.server.Start()
	}},
	{name: "restart from a stale RDB", exclusion: quarantined, forgets: true,
		prepare: func(a *arena) { a.server.Do("SAVE") },
		strike: func(a *arena, r *rand.Rand) {
			a.server.Kill()
			pause(r, 0, 200*ms)
			a.server.Start()
		}},
	{name: "SIGSTOP of the server", exclusion: always, strike: func(a *arena, r *rand.Rand) { // D13
		for range 2 {
			a.server.Stop()
			pause(r, 200*ms, 1400*ms)
			a.server.Continue()
			pause(r, 100*ms, 300*ms)
		}
	}},
	{name: "CLIENT PAUSE", exclusion: always, strike: func(a *arena, r *rand.Rand) {
		for _, mode := range []string{"WRITE", "ALL"} {
			a.server.Do("CLIENT", "PAUSE", 200+r.IntN(700), mode)
			pause(r, 900*ms, 1100*ms)
		}
	}},
	{name: "DEBUG SLEEP", exclusion: always, strike: func(a *arena, r *rand.Rand) {
		for range 3 {
			a.server.Do("DEBUG", "SLEEP", fmt.Sprint(0.1+r.Float64()/2))
			pause(r, 0, 200*ms)
		}
	}},
	{name: "FLUSHALL", exclusion: quarantined, forgets: true, strike: func(a *arena, _ *rand.Rand) { a.server.Do("FLUSHALL") }},
	{name: "SCRIPT FLUSH", exclusion: always, keeps: true, strike: func(a *arena, r *rand.Rand) { // N04
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
	{name: "out of memory (noeviction)", exclusion: always, keeps: true, strike: func(a *arena, r *rand.Rand) { // N03
		a.server.Do("CONFIG", "SET", "maxmemory", "1")
		pause(r, 500*ms, 1500*ms)
		a.server.Do("CONFIG", "SET", "maxmemory", "0")
	}},
	{name: "dropped replies", exclusion: always, strike: func(a *arena, r *rand.Rand) { // H05
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
	{name: "duplicated requests", exclusion: always, keeps: true, layout: layout{twice: true}, strike: func(a *arena, r *rand.Rand) {
		pause(r, 1500*ms, 2000*ms)
	}},
	{name: "blackholed connections", exclusion: always, strike: func(a *arena, r *rand.Rand) { // A01, A14
		v := a.victims(r)
		for _, p := range v {
			p.Delay(testserver.Replies, 300*ms) // what was renewed is known late
		}
		pause(r, 1000*ms, 1300*ms)
		for _, p := range v {
			p.Blackhole()
		}
		pause(r, ttl+400*ms, ttl+900*ms)
		for _, p := range v {
			p.Heal()
		}
	}},
	{name: "reset connections", exclusion: always, strike: func(a *arena, r *rand.Rand) {
		for range 20 {
			for _, p := range a.victims(r) {
				p.Reset()
			}
			pause(r, 10*ms, 100*ms)
		}
	}},
	{name: "promotion of a replica without the lock", exclusion: quarantined, forgets: true, layout: layout{replica: true}, // G01
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
	{name: "Sentinel failover", exclusion: quarantined, layout: layout{sentinel: true}, strike: func(a *arena, _ *rand.Rand) {
		a.server.Kill()
		a.sample(a.sentinel.Master(a.server))
	}},
	{name: "Cluster failover", exclusion: never, layout: layout{cluster: 2}, strike: func(a *arena, _ *rand.Rand) {
		a.cluster.Master("lock:k").Kill()
		a.until("the replica is promoted", func() bool {
			master := a.cluster.Master("lock:k")
			_, err := master.Try("PING")
			info, _ := master.Try("CLUSTER", "INFO")
			text, _ := info.(string)
			return err == nil && strings.Contains(text, "cluster_state:ok")
		})
	}},
	{name: "Cluster slot migration", exclusion: always, keeps: true, layout: layout{cluster: 1}, strike: func(a *arena, r *rand.Rand) { // K01
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
			if c, ok := strings.CutPrefix(w.(string), "+"); ok {
				a.server.Do("ACL", "SETUSER", a.user, "-"+c)
				pause(r, 40*ms, 80*ms)
				a.server.Do("ACL", "SETUSER", a.user, "+"+c)
			}
		}
	}},
	{name: "password rotated", exclusion: always, keeps: true, layout: layout{acl: true}, strike: func(a *arena, r *rand.Rand) {
		for i := range 2 {
			next := fmt.Sprint("secret", i)
			a.server.Do("ACL", "SETUSER", a.user, "resetpass", ">"+next)
			a.server.Do("CLIENT", "KILL", "USER", a.user)
			pause(r, 50*ms, 200*ms)
			a.password.Store(next)
			pause(r, 200*ms, 400*ms)
		}
	}},
	{name: "holder paused", exclusion: always, keeps: true, layout: layout{child: true}, strike: func(a *arena, r *rand.Rand) { // A01
		for range 2 {
			a.child.awaitHold(a.t)
			a.child.cmd.Process.Signal(syscall.SIGSTOP)
			pause(r, ttl+100*ms, ttl+600*ms)
			a.child.cmd.Process.Signal(syscall.SIGCONT)
			pause(r, 100*ms, 300*ms)
		}
	}},
}

func (a *arena) until(what string, done func() bool) {
	a.t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * ms) {
		if time.Now().After(end) {
			a.t.Fatalf("%s: not after 20s", what)
		}
	}
}
