package recipetest

import (
	"context"
	"errors"
	"time"

	"github.com/pawlock/pawl"
)

// election: one leader at a time, whose end comes before the next begins.
func election() []check {
	return []check{
		{"a_loss_is_told_before_another_wins", func(s *stage) { // A13
			key := s.key("k")
			c, line := s.severable(&pawl.Options{Label: "cut off"})
			ended := make(chan time.Time, 1)
			elected := make(chan *pawl.Leadership, 1)
			stopped := make(chan error, 1)
			ctx, cancel := context.WithCancel(s.ctx)
			defer cancel()
			over := make(chan error, 1)
			go func() {
				over <- c.Election(key).Run(ctx, pawl.Callbacks{
					Started: func(ctx context.Context, l *pawl.Leadership) error {
						elected <- l
						<-ctx.Done()
						ended <- time.Now()
						return context.Cause(ctx)
					},
					Stopped: func(_ *pawl.Leadership, err error) { stopped <- err },
				})
			}()
			old := receive(s, elected, "the first leader")
			line.cut.Store(true)
			next, err := s.b.Election(key).Campaign(s.ctx)
			won := time.Now()
			if err != nil {
				s.Fatalf("campaign: %v", err)
			}
			if end := receive(s, ended, "the end of the first leader"); !end.Before(won) {
				s.Errorf("the first leader ended %v after the second had won", end.Sub(won))
			}
			if err := receive(s, stopped, "Stopped"); !errors.Is(err, pawl.ErrLost) {
				s.Errorf("Stopped: got %v, want ErrLost", err)
			}
			if next.Term() <= old.Term() {
				s.Errorf("term: got %d, want more than %d", next.Term(), old.Term())
			}
			line.cut.Store(false) // it comes back, and is a candidate like others
			s.waiting(key, 1)
			if leader, err := s.a.Election(key).Leader(s.ctx); err != nil || leader.Label != "b" || leader.Term != next.Term() {
				s.Errorf("leader: got %+v, %v, want b in term %d", leader, err, next.Term())
			}
			if err := next.Resign(s.ctx); err != nil {
				s.Errorf("resign: %v", err)
			}
			again := receive(s, elected, "the first leader, elected again")
			if again.Term() <= next.Term() {
				s.Errorf("term: got %d, want more than %d", again.Term(), next.Term())
			}
			cancel()
			receive(s, over, "the end of Run")
			s.empty(key)
		}},
		{"observers_see_each_leader", func(s *stage) {
			key := s.key("k")
			seen := make(chan pawl.Leader, 10)
			ctx, cancel := context.WithCancel(s.ctx)
			over := make(chan struct{})
			go func() {
				defer close(over)
				for leader, err := range s.client(&pawl.Options{Label: "observer"}).Election(key).Observe(ctx) {
					if err != nil {
						s.Logf("observe: %v", err)
						continue
					}
					seen <- leader
				}
			}()
			want := func(label string, term uint64) {
				s.Helper()
				if l := receive(s, seen, "a leader"); l.Label != label || l.Term != term || (l.ID == "") != (label == "") {
					s.Errorf("observed %+v, want %q in term %d", l, label, term)
				}
			}
			want("", 0)
			for label, c := range map[string]*pawl.Client{"a": s.a, "b": s.b} {
				l, err := c.Election(key).Campaign(s.ctx)
				if err != nil {
					s.Fatalf("campaign: %v", err)
				}
				want(label, l.Term())
				if err := l.Resign(s.ctx); err != nil {
					s.Errorf("resign: %v", err)
				}
				want("", 0)
			}
			cancel()
			receive(s, over, "the end of Observe")
		}},
	}
}
