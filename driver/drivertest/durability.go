package drivertest

// durability: grants outlive a crash, of the processes that hold them and, if
// that is claimed, of the store.
func durability() []check {
	crash := func(s *stage) {
		if s.traits.Durable && s.store.Crash != nil {
			s.store.Crash()
		}
	}
	return []check{
		{"holder_survives", func(s *stage) {
			s.needs(s.traits.Durable, "Durable")
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			crash(s)
			held := s.process("new").refuse(s.b.mutex(key))
			if held.Holder.ID != a.Grant.Holder {
				s.Errorf("holder after a crash: got %q, want %q", held.Holder.ID, a.Grant.Holder)
			}
			s.a.stillHolds(&a)
			s.a.drop(a.Claim)
		}},
		{"release_survives", func(s *stage) {
			s.needs(s.traits.Durable, "Durable")
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			s.a.drop(a.Claim)
			crash(s)
			p := s.process("new")
			p.empty(key)
			p.take(p.mutex(key))
		}},
		{"tokens_survive", func(s *stage) {
			s.needs(s.traits.Durable, "Durable")
			s.needs(s.traits.Fencing, "Fencing")
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			last := a.Grant.Token
			a.Floor = last + 3_600_000_000 // an hour ahead of the clock, which alone would save nobody
			s.a.stillHolds(&a)
			last = a.Floor
			s.a.drop(a.Claim)
			crash(s)
			p := s.process("new")
			s.rises(&last, p.take(p.mutex(key)), "after a crash")
		}},
	}
}
