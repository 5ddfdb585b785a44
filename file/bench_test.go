package file_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/file"
)

func BenchmarkAcquireAndRelease(b *testing.B) {
	for where, dir := range map[string]func(testing.TB) string{"disk": onDisk, "tmpfs": inMemory} {
		b.Run(where, func(b *testing.B) {
			s := open(b, dir(b))
			ids := driver.NewIdentity("bench")
			for b.Loop() {
				c := mutex("k", ids.Next())
				g, err := s.Acquire(b.Context(), c)
				if err != nil {
					b.Fatal(err)
				}
				c.Grant = g
				if err := s.Release(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFirstAcquireOfAKey(b *testing.B) {
	s := open(b, b.TempDir())
	for n := 0; b.Loop(); n++ {
		if _, err := s.Acquire(b.Context(), mutex(fmt.Sprint(n), "a")); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHandover measures from the start of a Release to the return of
// the Wait of who is next in line.
func BenchmarkHandover(b *testing.B) {
	for _, unwatched := range []bool{false, true} {
		b.Run(map[bool]string{false: "watched", true: "unwatched"}[unwatched], func(b *testing.B) {
			handover(b, unwatched)
		})
	}
}

func handover(b *testing.B, unwatched bool) {
	dir := b.TempDir()
	holder, waiter := open(b, dir), open(b, dir)
	if unwatched {
		file.Unwatch(waiter)
	}
	ids := driver.NewIdentity("bench")
	for b.Loop() {
		b.StopTimer()
		c, w := mutex("k", ids.Next()), mutex("k", ids.Next())
		w.Queue = true
		g, err := holder.Acquire(b.Context(), c)
		if err != nil {
			b.Fatal(err)
		}
		c.Grant = g
		waiter.Acquire(b.Context(), w)
		done := make(chan error)
		go func() { done <- waiter.Wait(b.Context(), w, nil) }()
		time.Sleep(200 * time.Millisecond) // until it sleeps
		b.StartTimer()
		if err := holder.Release(b.Context(), c); err != nil {
			b.Fatal(err)
		}
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := waiter.Release(b.Context(), w); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
