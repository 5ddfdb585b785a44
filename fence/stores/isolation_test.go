package stores_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/fence"
	"github.com/pawlock/pawl/fence/fencesql"
)

// At the stricter levels PostgreSQL tells two that ran into each other to try
// again. That is not what a stale token means.
func aSerializationFailureIsNotStale(t *testing.T, d *database) {
	if d.dialect != fencesql.PostgreSQL {
		t.Skip("locks rather than fail")
	}
	db := d.open()
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		resource := "level" + level.String()
		guard := fencesql.New(db, d.dialect)
		nothing := func(context.Context) error { return nil }
		for number := uint64(5); number < 7; number++ { // the row is new, and then it is not
			tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.ExecContext(t.Context(), "SELECT 1 FROM entry"); err != nil { // takes the snapshot
				t.Fatal(err)
			}
			if err := guard.Do(t.Context(), resource, pawl.Token{Key: "k", Number: number}, nothing); err != nil {
				t.Fatal(err)
			}
			err = fencesql.Check(t.Context(), tx, d.dialect, resource, pawl.Token{Key: "k", Number: 9})
			if !transient(err) || errors.Is(err, fence.ErrStale) {
				t.Errorf("%v, after %d: got %v, want a serialization failure", level, number, err)
			}
			tx.Rollback()
		}
		if err := guard.Do(t.Context(), resource, pawl.Token{Key: "k", Number: 9}, nothing); err != nil {
			t.Errorf("%v, tried again: %v", level, err)
		}
	}
}

// What a transaction reads after its check has in it all that earlier tokens have
// written, at every level, if the check comes first.
func snapshotsSeeWhatTheyAreComparedWith(t *testing.T, d *database) {
	db, other := d.open(), fencesql.New(d.open(), d.dialect)
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelRepeatableRead, sql.LevelSerializable} {
		if d.dialect == fencesql.SQLite && level != sql.LevelDefault {
			continue // it has one level
		}
		resource := "snapshot" + level.String()
		tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
		if err != nil {
			t.Fatal(err)
		}
		err = other.Do(t.Context(), resource, pawl.Token{Key: "k", Number: 5}, func(ctx context.Context) error {
			theirs, _ := fencesql.TxFromContext(ctx)
			return d.append(ctx, theirs, resource, "earlier")
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := fencesql.Check(t.Context(), tx, d.dialect, resource, pawl.Token{Key: "k", Number: 6}); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := tx.QueryRowContext(t.Context(), d.query("SELECT count(*) FROM entry WHERE resource = ?"), resource).Scan(&n); err != nil || n != 1 {
			t.Errorf("%v: the transaction sees %d entries (%v), want the earlier one", level, n, err)
		}
		tx.Rollback()
	}
}

// A snapshot of before a later token was seen does not let an earlier one pass, as
// a plain read of the mark would.
func anOldSnapshotLetsNobodyPass(t *testing.T, d *database) {
	if d.dialect == fencesql.SQLite {
		t.Skip("a transaction that has read, and is behind, can't write any more")
	}
	db, other := d.open(), fencesql.New(d.open(), d.dialect)
	for _, first := range []uint64{0, 3} { // the row is new, or not
		resource := fmt.Sprint("old", first)
		nothing := func(context.Context) error { return nil }
		if first > 0 {
			if err := other.Do(t.Context(), resource, pawl.Token{Key: "k", Number: first}, nothing); err != nil {
				t.Fatal(err)
			}
		}
		for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelRepeatableRead} {
			tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
			if err != nil {
				t.Fatal(err)
			}
			var n int
			if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM pawl_fence").Scan(&n); err != nil {
				t.Fatal(err)
			}
			if err := other.Do(t.Context(), resource, pawl.Token{Key: "k", Number: 7}, nothing); err != nil {
				t.Fatal(err)
			}
			err = fencesql.Check(t.Context(), tx, d.dialect, resource, pawl.Token{Key: "k", Number: 6})
			if !errors.Is(err, fence.ErrStale) && !transient(err) {
				t.Errorf("%v: 6 after 7, with a snapshot of before: got %v, want ErrStale, or to try again", level, err)
			}
			tx.Rollback()
		}
	}
}

// Case R02: the mark outlives a crash of the database, as the data does.
func aTokenIsAsDurableAsTheData(t *testing.T, d *database) {
	if d.restart == nil {
		t.Skip("there is no server to crash")
	}
	write := func(number uint64) error {
		return fencesql.New(d.open(), d.dialect).Do(t.Context(), "durable", pawl.Token{Key: "k", Number: number}, func(ctx context.Context) error {
			tx, _ := fencesql.TxFromContext(ctx)
			return d.append(ctx, tx, "durable", fmt.Sprint(number))
		})
	}
	if err := write(7); err != nil {
		t.Fatal(err)
	}
	d.restart()
	if err := write(6); !errors.Is(err, fence.ErrStale) {
		t.Errorf("6, after a crash that came after 7: got %v, want ErrStale", err)
	}
	if got := d.read(t, d.open(), "durable"); !slices.Equal(got, []string{"7"}) {
		t.Errorf("the data is %q, want 7 alone", got)
	}
}

func aMissingTableIsSaid(t *testing.T, d *database) {
	db := d.open()
	if _, err := db.ExecContext(t.Context(), "DROP TABLE pawl_fence"); err != nil {
		t.Fatal(err)
	}
	err := fencesql.New(db, d.dialect).Do(t.Context(), "r", pawl.Token{Key: "k", Number: 5}, func(context.Context) error {
		t.Error("the write was called")
		return nil
	})
	if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "pawl_fence") {
		t.Errorf("got %v, want an error that names the table", err)
	}
}
