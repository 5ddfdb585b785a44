package pawl_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

// logTo returns a logger whose lines have no time, and a func that returns them.
func logTo() (*slog.Logger, func() []string) {
	var mu sync.Mutex
	var out bytes.Buffer
	h := slog.NewTextHandler(lockedWriter{&mu, &out}, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "token" {
				return slog.Attr{}
			}
			return a
		},
	})
	return slog.New(h), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	}
}

type lockedWriter struct {
	mu  *sync.Mutex
	out *bytes.Buffer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

// The life of a lease as its log tells it.
// Case P11.
func TestLogObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, lines := logTo()
		store := new(memory.Store)
		holder := newClient(t, memory.New(store), &pawl.Options{Label: "holder"})
		defer holder.Close()
		b := &faulty{Backend: memory.New(store)}
		attempt := 0
		b.acquire = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			if attempt++; attempt == 1 {
				return driver.Grant{}, driver.ErrRefused
			}
			return b.Backend.Acquire(ctx, c)
		}
		b.renew = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			if c.Key == "cut off" {
				return driver.Grant{}, errDown
			}
			time.Sleep(time.Millisecond)
			return b.Backend.Renew(ctx, c)
		}
		c := newClient(t, b, &pawl.Options{Observer: pawl.LogObserver(log)})

		held := acquire(t, holder.Mutex("k"))
		time.AfterFunc(2*time.Second, func() { held.Release(context.Background()) })
		lease := acquire(t, c.Mutex("k"))
		time.Sleep(10*time.Second/3 + 2*time.Millisecond)
		lease.Release(t.Context())
		lost := acquire(t, c.Mutex("cut off"))
		<-lost.Context().Done()
		synctest.Wait()
		lost.Release(t.Context())
		c.Close()

		want := []string{
			`level=WARN msg="pawl: store in trouble" op=acquire key=k err="refused, nothing was done"`,
			`level=INFO msg="pawl: waiting" key=k holder=holder place=1 left=*`,
			`level=DEBUG msg="pawl: acquired" key=k waited=2s attempts=3`,
			`level=DEBUG msg="pawl: renewed" key=k took=1ms left=5.563666667s`,
			`level=DEBUG msg="pawl: released" key=k held=3.335333333s`,
			`level=DEBUG msg="pawl: acquired" key="cut off" waited=0s attempts=1`,
		}
		for _, left := range []string{"5.564666667s", "5.314666667s", "4.814666667s", "3.814666667s", "2.148000001s", "481.333335ms"} {
			want = append(want, `level=WARN msg="pawl: not renewed" key="cut off" err="pawl: renew \"cut off\" (memory): connection reset" left=`+left)
		}
		want = append(want, `level=ERROR msg="pawl: lost" key="cut off" reason=expired`)
		got := lines()
		for i, line := range got {
			if before, _, ok := strings.Cut(line, " left="); ok && strings.Contains(line, "waiting") {
				got[i] = before + " left=*" // after a pause of random length
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// An observer with some funcs, or none, is told those alone.
func TestAnObserverMayHaveNoFuncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &faulty{Backend: memory.New(nil)}
		b.renew = func(context.Context, driver.Claim) (driver.Grant, error) { return driver.Grant{}, errDown }
		c := newClient(t, b, &pawl.Options{Observer: &pawl.Observer{}})
		lease := acquire(t, c.Mutex("k"))
		if _, err := c.Mutex("k").Acquire(after(t, time.Second)); err == nil {
			t.Error("granted while it is held")
		}
		<-lease.Context().Done()
		lease.Release(t.Context())
		c.Close()
	})
}

// Whatever happens, a grant is told before its end, and each end once.
// Case P11.
func TestTheObserverIsToldEachEndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var events []string
		note := func(format string, a ...any) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, fmt.Sprintf(format, a...))
		}
		store := new(memory.Store)
		c := newClient(t, memory.New(store), &pawl.Options{Observer: &pawl.Observer{
			Waiting: func(key string, _ *pawl.HeldError) { note("waiting %s", key) },
			Acquired: func(l *pawl.Lease, waited time.Duration, attempts int) {
				note("acquired %s %v %d", l.Key(), waited, attempts)
			},
			Lost:     func(l *pawl.Lease, err *pawl.LostError) { note("lost %s %s", l.Key(), err.Reason) },
			Released: func(l *pawl.Lease, held time.Duration, err error) { note("released %s %v %v", l.Key(), held, err) },
		}})
		lease := acquire(t, c.Mutex("a"))
		if _, err := c.Mutex("a").Acquire(after(t, 8*time.Second)); err == nil { // waits more than once
			t.Error("granted while it is held")
		}
		lease.Release(t.Context())
		lease.Release(t.Context())
		lost := acquire(t, c.Mutex("b"))
		if err := c.ForceRelease(t.Context(), "b", lost.Holder(), "stuck"); err != nil {
			t.Error(err)
		}
		<-lost.Context().Done()
		synctest.Wait()
		lost.Release(t.Context())
		acquire(t, c.Mutex("c"))
		c.Close()
		synctest.Wait()
		want := []string{
			"acquired a 0s 1", "waiting a", "released a 8s <nil>",
			"acquired b 0s 1", "lost b forced",
			"acquired c 0s 1", "lost c closed",
		}
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(events, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(events, "\n"), strings.Join(want, "\n"))
		}
	})
}
