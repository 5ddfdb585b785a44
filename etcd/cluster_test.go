package etcd_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/etcd"
	"github.com/pawlock/pawl/internal/testserver"
)

// threeMembers starts a cluster of the current release, and returns its members,
// the leader first.
func threeMembers(t testing.TB) []*testserver.Etcd {
	t.Helper()
	members := testserver.StartEtcd(t, testserver.EtcdOptions{Members: 3, Current: true})
	for i, m := range members {
		if isLeader(t, m) {
			members[0], members[i] = members[i], members[0]
			return members
		}
	}
	t.Fatal("no member leads")
	return nil
}

func isLeader(t testing.TB, m *testserver.Etcd) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	st, err := connect(t, m.Addr).Status(ctx, m.Addr)
	return err == nil && st.Leader == st.Header.MemberId
}

func addrs(members []*testserver.Etcd) []string {
	var list []string
	for _, m := range members {
		list = append(list, m.Addr)
	}
	return list
}

// One member of three is killed or freezes, the leader or another: whoever holds
// goes on holding beyond its TTL, nobody else gets in, and the lock goes on with a
// greater token. When the member is back nothing changes, though a leader that was
// frozen takes the leases that it knew for expired, and ends them. Case G13.
func TestAHeldLockSurvivesTheLossOfOneMember(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 20 s")
	}
	t.Parallel()
	for victim, who := range []string{"leader", "follower"} {
		for _, how := range []string{"killed", "frozen"} {
			t.Run(who+" "+how, func(t *testing.T) {
				t.Parallel()
				members := threeMembers(t)
				store := connect(t, addrs(members)...)
				a, b := newClient(t, etcd.New(store, nil), 10*time.Second), newClient(t, etcd.New(connect(t, addrs(members)...), nil), 10*time.Second)
				lease := mustTry(t, a.Mutex("k"))
				next := acquireLater(t, b.Mutex("k"))
				if how == "killed" {
					members[victim].Kill()
				} else {
					members[victim].Stop()
				}
				holdsFor(t, lease, next, 15*time.Second)
				if how == "killed" {
					members[victim].Start()
				} else {
					members[victim].Continue()
				}
				holdsFor(t, lease, next, 3*time.Second)
				mustRelease(t, lease)
				select {
				case second, ok := <-next:
					if ok && second.Token() <= lease.Token() {
						t.Errorf("token: got %d after %d", second.Token(), lease.Token())
					}
				case <-time.After(patience):
					t.Error("the next in line did not get the lock")
				}
			})
		}
	}
}

// holdsFor checks that the lease goes on for d, and nobody else gets one.
func holdsFor(t testing.TB, lease *pawl.Lease, next <-chan *pawl.Lease, d time.Duration) {
	t.Helper()
	select {
	case <-lease.Context().Done():
		t.Fatalf("the lease was lost: %v", context.Cause(lease.Context()))
	case <-next:
		t.Fatal("another got the lock while it was held")
	case <-time.After(d):
	}
}

// With two of three members frozen nobody is granted anything, and nobody is told
// that the lock is held; a holder is told that it has lost it before another can
// have it. When they are back the lock goes on.
func TestAMinorityGrantsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 10 s")
	}
	t.Parallel()
	members := threeMembers(t)
	a := newClient(t, etcd.New(connect(t, addrs(members)...), nil), 4*time.Second)
	b := etcd.New(connect(t, members[2].Addr), nil)
	lease := mustTry(t, a.Mutex("k"))
	members[0].Stop()
	members[1].Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	for _, key := range []string{"k", "free"} {
		c := claim(driver.NewIdentity("t"))
		c.Key = key
		if g, err := b.Acquire(ctx, c); err == nil || errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrLost) {
			t.Errorf("Acquire of %q with a majority frozen: got %+v, %v, want an error that leaves the outcome open", key, g, err)
		}
	}
	lostBecause(t, lease, driver.Expired)
	members[0].Continue()
	members[1].Continue()
	ctx, cancel = context.WithTimeout(t.Context(), patience)
	defer cancel()
	again, err := a.Mutex("k").Acquire(ctx)
	if err != nil {
		t.Fatalf("Acquire with all members back: %v", err)
	}
	if again.Token() <= lease.Token() {
		t.Errorf("token: got %d after %d", again.Token(), lease.Token())
	}
}

// A holder that is cut off from all members, and one that is cut off from all but
// one, which itself is frozen, is told before the store gives the lock to the next.
// Cases A01, A02.
func TestACutOffHolderIsToldBeforeTheNextIsGranted(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 10 s")
	}
	t.Parallel()
	for name, cut := range map[string]func(p *testserver.Proxy){
		"silently":   (*testserver.Proxy).Blackhole,
		"by a reset": func(p *testserver.Proxy) { p.Refuse(); p.Reset() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			members := threeMembers(t)
			var proxies []*testserver.Proxy
			var through []string
			for _, m := range members {
				p := testserver.StartProxy(t, m.Addr)
				proxies, through = append(proxies, p), append(through, p.Addr)
			}
			a := newClient(t, etcd.New(connect(t, through...), nil), 4*time.Second)
			b := newClient(t, etcd.New(connect(t, addrs(members)...), nil), 4*time.Second)
			lease := mustTry(t, a.Mutex("k"))
			told := make(chan time.Time, 1)
			context.AfterFunc(lease.Context(), func() { told <- time.Now() })
			next := acquireLater(t, b.Mutex("k"))
			for _, p := range proxies {
				cut(p)
			}
			select {
			case second, ok := <-next:
				granted := time.Now()
				if !ok {
					return
				}
				select {
				case at := <-told:
					if !at.Before(granted) {
						t.Errorf("the holder was told %v after the next was granted", at.Sub(granted))
					}
				default:
					t.Error("the next was granted, and the holder is not told")
				}
				if second.Token() <= lease.Token() {
					t.Errorf("token: got %d after %d", second.Token(), lease.Token())
				}
			case <-time.After(patience):
				t.Fatal("the next in line did not get the lock of a holder that is cut off")
			}
			for _, p := range proxies {
				p.Heal()
			}
			if err := lease.Release(t.Context()); !errors.Is(err, pawl.ErrLost) {
				t.Errorf("Release of the first: got %v, want ErrLost", err)
			}
		})
	}
}

// A process that dies without a word holds for no longer than its TTL and what the
// servers take to notice, and its units come back. Cases M05, O07.
func TestUnitsOfADeadProcessComeBack(t *testing.T) {
	t.Parallel()
	server := testserver.StartEtcd(t, testserver.EtcdOptions{})[0]
	proxy := testserver.StartProxy(t, server.Addr)
	dead := connect(t, proxy.Addr)
	b := newClient(t, etcd.New(connect(t, server.Addr), nil), 4*time.Second)
	c := claim(driver.NewIdentity("dead"))
	c.TTL = 4 * time.Second
	c.Weight, c.Capacity = 1, 2
	g, err := etcd.New(dead, nil).Acquire(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	granted := time.Now()
	dead.Close()
	mustTry(t, b.Semaphore("k", 2))
	lease, ok := <-acquireLater(t, b.Semaphore("k", 2))
	if !ok {
		return
	}
	if after := time.Since(granted); after > g.TTL+5*time.Second {
		t.Errorf("its unit came back after %v, want about %v", after, g.TTL)
	}
	mustRelease(t, lease)
}
