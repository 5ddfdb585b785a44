package fencetest

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/fence"
)

// firstWrites has several processes meet at a resource that nobody has written
// to yet.
func firstWrites(s *stage) {
	for range 20 {
		s.race(s.resource(), 4, 1, func(worker int) pawl.Token { return exclusive(uint64(worker + 1)) })
	}
}

// history has several processes take tokens from one counter, dawdle, and write.
func history(s *stage) {
	for _, shares := range []bool{false, true} {
		var last atomic.Uint64
		s.race(s.resource(), 8, 25, func(int) pawl.Token {
			t := exclusive(last.Add(1))
			t.Shared = shares && rand.IntN(3) > 0
			for range rand.IntN(20) {
				runtime.Gosched()
			}
			return t
		})
	}
}

// race has so many workers write so often each, and checks what they have
// written and what they were told.
func (s *stage) race(resource string, workers, turns int, next func(worker int) pawl.Token) {
	s.Helper()
	guards := []fence.Guard{s.Guard(), s.Guard()}
	var mu sync.Mutex
	accepted, refused := make(map[pawl.Token]bool), make(map[pawl.Token]*fence.StaleError)
	var highest pawl.Token
	start := make(chan struct{})
	var running sync.WaitGroup
	for w := range workers {
		running.Go(func() {
			<-start
			for range turns {
				token := next(w)
				err := s.do(s.Context(), guards[w%len(guards)], resource, token)
				for tries := 0; s.transient(err) && tries < 100; tries++ {
					err = s.do(s.Context(), guards[w%len(guards)], resource, token)
				}
				var stale *fence.StaleError
				mu.Lock()
				if token.Number > highest.Number {
					highest = token
				}
				switch {
				case err == nil:
					accepted[token] = true
				case errors.As(err, &stale):
					refused[token] = stale
				default:
					s.Errorf("Do with %s: %v", token, err)
				}
				mu.Unlock()
			}
		})
	}
	close(start)
	running.Wait()

	found := s.replay(resource)
	for t := range accepted {
		if found[t] != 1 {
			s.Errorf("%s was accepted, and is written %d times, want once", t, found[t])
		}
	}
	for t, stale := range refused {
		if found[t] != 0 {
			s.Errorf("%s was refused, and is written", t)
		}
		if stale.Highest.Number <= t.Number {
			s.Errorf("%s was refused because of %s, which is no later", t, stale.Highest)
		}
	}
	if !accepted[highest] {
		s.Errorf("the latest token, %s, was not accepted", highest)
	}
}
