package stores_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/fence"
	"github.com/pawlock/pawl/fence/fencesql"
	"github.com/pawlock/pawl/fence/fencetest"
)

// TestDatabases starts each database once, for all that is asked of it.
func TestDatabases(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d *database) {
		for _, c := range []struct {
			name string
			test func(*testing.T, *database)
		}{
			{"Conformance", conformance},
			{"TheRuleIsTheSameInSQL", theRuleIsTheSameInSQL},
			{"InACallersTransaction", inACallersTransaction},
			{"AnEndedLeaseCommitsNothing", anEndedLeaseCommitsNothing},
			{"ARolledBackFirstWriteLetsTheNextIn", aRolledBackFirstWriteLetsTheNextIn},
			{"ASerializationFailureIsNotStale", aSerializationFailureIsNotStale},
			{"SnapshotsSeeWhatTheyAreComparedWith", snapshotsSeeWhatTheyAreComparedWith},
			{"AnOldSnapshotLetsNobodyPass", anOldSnapshotLetsNobodyPass},
			{"ATokenIsAsDurableAsTheData", aTokenIsAsDurableAsTheData},
			{"AMissingTableIsSaid", aMissingTableIsSaid}, // the last: it drops it
		} {
			t.Run(c.name, func(t *testing.T) { c.test(t, d) })
		}
	})
}

func conformance(t *testing.T, d *database) {
	reader := d.open()
	one, two := d.open(), d.open() // a pool each, as two processes have
	fencetest.Run(t, fencetest.Harness{New: func(t *testing.T) fencetest.Store {
		turn := 0
		return fencetest.Store{
			Guard: func() fence.Guard {
				turn++
				return fencesql.New([]*sql.DB{one, two}[turn%2], d.dialect)
			},
			Append: func(ctx context.Context, resource, value string) error {
				tx, ok := fencesql.TxFromContext(ctx)
				if !ok {
					return errors.New("the context has no transaction")
				}
				return d.append(ctx, tx, resource, value)
			},
			Read:      func(resource string) []string { return d.read(t, reader, resource) },
			Undo:      true,
			Transient: transient,
		}
	}})
}

// transient reports whether the database asks to try again.
func transient(err error) bool {
	var m *mysql.MySQLError
	var p *pgconn.PgError
	switch {
	case errors.As(err, &m):
		return m.Number == 1213 // deadlock
	case errors.As(err, &p):
		return p.Code == "40001" // serialization failure
	}
	return false
}

// The rule is written in SQL as well as in Go: they agree on random tokens, and
// so do the marks that they leave, even if a refusal is committed.
func theRuleIsTheSameInSQL(t *testing.T, d *database) {
	db := d.open()
	for resource := range 12 {
		name := fmt.Sprint("rule", resource)
		var mark fence.Mark
		for range 40 {
			token := pawl.Token{Key: "k", Shared: rand.IntN(2) == 0, Number: uint64(1 + rand.IntN(12))}
			if rand.IntN(10) == 0 {
				token.Key = "other"
			}
			next, want := mark.Raise(name, token)
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			err = fencesql.Check(t.Context(), tx, d.dialect, name, token)
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(err) != fmt.Sprint(want) {
				t.Fatalf("%s after %+v: got %v, want %v", token, mark, err, want)
			}
			if want == nil {
				mark = next
			}
			var got fence.Mark
			row := db.QueryRowContext(t.Context(), d.query("SELECT lock_name, exclusive, shared FROM pawl_fence WHERE resource = ?"), name)
			if err := row.Scan(&got.Key, &got.Exclusive, &got.Shared); err != nil {
				t.Fatal(err)
			}
			if got != mark {
				t.Fatalf("after %s: the table has %+v, want %+v", token, got, mark)
			}
		}
	}
}

func inACallersTransaction(t *testing.T, d *database) {
	db := d.open()
	in := func(commit bool, number uint64) error {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		for _, resource := range []string{"caller-a", "caller-b"} { // in one transaction, one check each
			token := pawl.Token{Key: "lock", Number: number}
			if err := fencesql.Check(t.Context(), tx, d.dialect, resource, token); err != nil {
				return err
			}
			if err := d.append(t.Context(), tx, resource, token.String()); err != nil {
				t.Fatal(err)
			}
		}
		if commit {
			return tx.Commit()
		}
		return nil
	}
	if err := errors.Join(in(true, 5), in(false, 9), in(true, 7)); err != nil { // 9 was rolled back, and so never seen
		t.Fatal(err)
	}
	if err := in(true, 6); !errors.Is(err, fence.ErrStale) {
		t.Errorf("after 7, 6: got %v, want ErrStale", err)
	}
	for _, resource := range []string{"caller-a", "caller-b"} {
		if got, want := d.read(t, db, resource), []string{"lock:x:5", "lock:x:7"}; !slices.Equal(got, want) {
			t.Errorf("%s holds %q, want %q", resource, got, want)
		}
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for _, bad := range []pawl.Token{{}, {Key: "lock"}, {Key: "lock", Number: 1 << 63}} {
		if err := fencesql.Check(t.Context(), tx, d.dialect, "r", bad); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("Check of %+v: got %v, want ErrInvalid", bad, err)
		}
	}
}

func anEndedLeaseCommitsNothing(t *testing.T, d *database) {
	db := d.open()
	guard := fencesql.New(db, d.dialect)
	ctx, end := context.WithCancel(t.Context())
	err := guard.Do(ctx, "ended", pawl.Token{Key: "k", Number: 5}, func(ctx context.Context) error {
		tx, _ := fencesql.TxFromContext(ctx)
		if err := d.append(ctx, tx, "ended", "x"); err != nil {
			t.Fatal(err)
		}
		end()
		return nil
	})
	if err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("got %v, want the error of the context", err)
	}
	if got := d.read(t, db, "ended"); len(got) != 0 {
		t.Errorf("%q was written", got)
	}
	if err := guard.Do(t.Context(), "ended", pawl.Token{Key: "k", Number: 4}, func(context.Context) error { return nil }); err != nil {
		t.Errorf("4, after 5 was rolled back: %v", err)
	}
}

// Two write to a new resource; the first has inserted the row, the second waits for
// it, and the first gives up.
func aRolledBackFirstWriteLetsTheNextIn(t *testing.T, d *database) {
	if d.dialect == fencesql.SQLite {
		t.Skip("one writes at a time, and nobody waits for a row")
	}
	guard, other := fencesql.New(d.open(), d.dialect), fencesql.New(d.open(), d.dialect)
	for i := range 3 {
		resource := fmt.Sprint("first", i)
		giveUp := errors.New("the first gives up")
		second := make(chan error, 1)
		err := guard.Do(t.Context(), resource, pawl.Token{Key: "k", Number: 9}, func(context.Context) error {
			go func() {
				second <- other.Do(t.Context(), resource, pawl.Token{Key: "k", Number: 5}, func(context.Context) error { return nil })
			}()
			d.awaitWaiter(t)
			return giveUp
		})
		if !errors.Is(err, giveUp) {
			t.Fatal(err)
		}
		if err := <-second; err != nil && !transient(err) {
			t.Errorf("5, after 9 was rolled back: %v", err)
		}
	}
}
