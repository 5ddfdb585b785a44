package drivertest

import (
	"fmt"
	"time"

	"github.com/pawlock/pawl/driver"
)

// fairness: claims are granted in order of arrival.
func fairness() []check {
	fair := func(f func(*stage)) func(*stage) {
		return func(s *stage) {
			s.needs(s.traits.Fair, "Fair")
			f(s)
		}
	}
	return []check{
		{"in_order", fair(func(s *stage) { s.inTurn(inOrder) })},
		{"place_in_line", fair(func(s *stage) {
			key := s.key("k")
			s.a.take(s.a.mutex(key))
			line := []driver.Claim{queued(s.b.mutex(key)), queued(s.a.mutex(key)), queued(s.b.reader(key))}
			for range 2 { // asking again changes nothing
				for i, c := range line {
					if held := s.b.refuse(c); held.Place != i+1 {
						s.Errorf("place of number %d in line: got %d", i+1, held.Place)
					}
				}
			}
			if held := s.a.refuse(s.a.mutex(key)); held.Place != 0 {
				s.Errorf("place of a claim that does not queue: got %d, want 0", held.Place)
			}
		})},
		{"readers_behind_a_writer", fair(func(s *stage) { s.inTurn(writerFirst) })},
		{"small_behind_large", fair(func(s *stage) {
			s.needs(s.traits.Counting, "Counting")
			s.inTurn(largeFirst)
		})},
		{"the_dead_are_passed", fair(func(s *stage) { // E02
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			for range 20 { // all of them in the time of one, and some for the store to answer
				s.a.refuse(lasting(s.ttl, queued(s.a.mutex(key))))
			}
			came := time.Now()
			next := queued(s.b.mutex(key))
			s.b.refuse(next)
			s.a.drop(a.Claim)
			s.b.takeBy(came.Add(s.ttl+s.prompt), next)
		})},
		{"a_place_lasts_its_ttl", fair(func(s *stage) {
			key := s.key("k")
			s.a.take(s.a.mutex(key))
			dead := lasting(s.ttl, queued(s.a.mutex(key)))
			s.a.refuse(dead)
			for deadline := s.soon().Add(s.ttl); s.b.inspect(key, 10).Waiting > 0; s.store.Sleep(s.ttl / 20) {
				if time.Now().After(deadline) {
					s.Fatalf("a claim that waits and does not ask again is still in line, its TTL of %v long over", s.ttl)
				}
			}
		})},
	}
}

// turn is how long the next in line may take to answer when there is room. A
// store may pass one that takes longer than a second.
const turn = 400 * time.Millisecond

// inTurn runs play until it was quick enough to be judged, and fails if it
// saw somebody overtake.
func (s *stage) inTurn(play func(s *stage, key string) error) {
	s.Helper()
	var err error
	for i := range 10 {
		start := time.Now()
		err = play(s, s.key(fmt.Sprint(i)))
		if err == nil {
			return
		}
		if time.Since(start) < turn {
			break
		}
	}
	s.Errorf("%v", err)
}

// overtakes reports c getting in ahead of others.
func (p *process) overtakes(c driver.Claim) error {
	if h, err := p.try(c); err == nil {
		return fmt.Errorf("%d of %d of %q: got %+v ahead of a claim that came before, want ErrHeld", c.Weight, c.Capacity, c.Key, h.Grant)
	}
	return nil
}

func inOrder(s *stage, key string) error {
	holder := s.a.take(s.a.mutex(key))
	first, second, third := queued(s.b.mutex(key)), queued(s.a.mutex(key)), queued(s.b.mutex(key))
	s.b.refuse(first)
	s.a.refuse(second)
	s.b.refuse(third)
	s.a.drop(holder.Claim)
	for i, c := range []driver.Claim{first, second} {
		for _, late := range [][]driver.Claim{{second, third, s.a.mutex(key), queued(s.b.mutex(key))}, {third, s.a.mutex(key)}}[i] {
			if err := s.b.overtakes(late); err != nil {
				return err
			}
		}
		h, err := s.b.try(c)
		if err != nil {
			return fmt.Errorf("number %d in line, with nobody ahead: %w", i+1, err)
		}
		s.b.drop(h.Claim)
	}
	return nil
}

// writerFirst: readers that come while a writer waits do not starve it.
func writerFirst(s *stage, key string) error {
	r := s.a.take(s.a.reader(key))
	w, late := queued(s.b.writer(key)), queued(s.a.reader(key))
	s.b.refuse(w)
	if err := s.a.overtakes(s.a.reader(key)); err != nil {
		return err
	}
	if err := s.a.overtakes(late); err != nil {
		return err
	}
	s.a.drop(r.Claim)
	if err := s.a.overtakes(late); err != nil {
		return err
	}
	held, err := s.b.try(w)
	if err != nil {
		return fmt.Errorf("writer, the next in line: %w", err)
	}
	s.b.drop(held.Claim)
	if _, err := s.a.try(late); err != nil {
		return fmt.Errorf("reader, the next in line: %w", err)
	}
	return nil
}

// largeFirst: a small share does not get past a large one for which there is
// not enough room.
func largeFirst(s *stage, key string) error {
	h := s.a.take(s.a.claim(key, 2, 3))
	large := queued(s.b.claim(key, 2, 3))
	s.b.refuse(large)
	if err := s.a.overtakes(s.a.claim(key, 1, 3)); err != nil {
		return err
	}
	s.a.drop(h.Claim)
	if _, err := s.b.try(large); err != nil {
		return fmt.Errorf("large share, the next in line: %w", err)
	}
	if _, err := s.a.try(s.a.claim(key, 1, 3)); err != nil {
		return fmt.Errorf("small share, with nobody ahead: %w", err)
	}
	return nil
}
