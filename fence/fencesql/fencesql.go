// Package fencesql guards what is in a database, inside the transaction that
// writes it.
//
//	guard := fencesql.New(db, fencesql.PostgreSQL)
//	...
//	err = fence.Do(ctx, guard, "invoice/42", func(ctx context.Context) error {
//		tx, _ := fencesql.TxFromContext(ctx)
//		_, err := tx.ExecContext(ctx, "UPDATE invoice SET paid = true WHERE id = 42")
//		return err
//	})
//
// Who has a transaction already calls [Check] in it. The marks are in the table
// pawl_fence, which [Migration] makes, beside the data and as durable as it: they
// are committed together or not at all.
package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/fence"
)

// A Guard guards what is in one database. It may be used by any number of
// goroutines, and beside others, of other processes and in other languages,
// that do as docs/protocol.md says.
type Guard struct {
	db      *sql.DB
	dialect Dialect
}

// New returns a guard of what is in db. It does no I/O: a missing table is an
// error of the first Do. A nil db, or a dialect that is none, panics.
func New(db *sql.DB, d Dialect) *Guard {
	if db == nil {
		panic("fencesql: the database is nil")
	}
	d.mustBeKnown()
	return &Guard{db: db, dialect: d}
}

// Do implements [fence.Guard]. It begins a transaction at the isolation level that
// is the database's default, checks token, calls write, and commits. Write finds
// the transaction with [TxFromContext], and must neither commit it nor roll it
// back. If write fails, or panics, all is rolled back, its token included.
//
// The row of the resource stays locked until the end: two writes to one resource
// take turns. Who is in another's way may get an error of the database that asks
// to try again, a deadlock or a serialization failure, and may do that: nothing
// was written. An error of the commit itself leaves open whether it was.
func (g *Guard) Do(ctx context.Context, resource string, token pawl.Token, write func(ctx context.Context) error) (err error) {
	inner, err := fence.Enter(ctx, g, resource, token)
	if err != nil {
		return err
	}
	tx, err := g.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	committed := false
	defer func() {
		if !committed { // also if write panics
			if back := tx.Rollback(); back != nil && !errors.Is(back, sql.ErrTxDone) {
				err = errors.Join(err, fmt.Errorf("roll back: %w", back))
			}
		}
	}()
	if err := check(ctx, tx, g.dialect, resource, token); err != nil {
		return err
	}
	if err := write(context.WithValue(inner, txKey{}, tx)); err != nil {
		return err
	}
	committed = true // or in doubt, and then there is nothing to roll back either
	return tx.Commit()
}

type txKey struct{}

// TxFromContext returns the transaction of the innermost [Guard.Do] that ctx is
// inside of.
func TxFromContext(ctx context.Context) (*sql.Tx, bool) {
	tx, ok := ctx.Value(txKey{}).(*sql.Tx)
	return tx, ok
}

// Check returns nil if token may write to resource, and remembers it, inside tx.
// Else it returns a [*fence.StaleError] or a [*fence.OtherLockError], and tx must
// be rolled back; so it must after any other error, none of which means that the
// token is stale.
//
// Call it before the first write, so that who is stale does not wait for locks of
// those who are not, and once for each resource that tx writes to. It locks the
// resource's row until tx ends. At every isolation level tx sees, after it, all
// that was committed under the tokens that it has been compared with, or fails
// with an error of the database that asks to try again; where snapshots are taken
// at the first read, as in MySQL's REPEATABLE READ, that takes a Check before it.
func Check(ctx context.Context, tx *sql.Tx, d Dialect, resource string, token pawl.Token) error {
	d.mustBeKnown()
	if err := fence.Validate(resource, token); err != nil {
		return err
	}
	return check(ctx, tx, d, resource, token)
}

// check raises the mark of resource in one statement, which creates or locks its
// row, and looks at what has come of it: a mark that has been raised accepts the
// token once more, and one that was not refuses it.
func check(ctx context.Context, tx *sql.Tx, d Dialect, resource string, token pawl.Token) error {
	if token.Number > math.MaxInt64 {
		return &pawl.FieldError{Field: "Number", Why: fmt.Sprintf("of the token is %d: a database keeps no more than %d", token.Number, int64(math.MaxInt64))}
	}
	var exclusive, shared int64
	if token.Shared {
		shared = int64(token.Number)
	} else {
		exclusive = int64(token.Number)
	}
	var row *sql.Row
	s := statements[d]
	if s.read == "" {
		row = tx.QueryRowContext(ctx, s.raise, resource, escape(token.Key), exclusive, shared)
	} else {
		if _, err := tx.ExecContext(ctx, s.raise, resource, escape(token.Key), exclusive, shared); err != nil {
			return failed(resource, err)
		}
		row = tx.QueryRowContext(ctx, s.read, resource)
	}
	var key string
	if err := row.Scan(&key, &exclusive, &shared); err != nil {
		return failed(resource, err)
	}
	mark := fence.Mark{Key: unescape(key), Exclusive: uint64(exclusive), Shared: uint64(shared)}
	next, err := mark.Raise(resource, token)
	if err == nil && next != mark {
		return failed(resource, fmt.Errorf("the mark is %+v, and should be %+v: the table is not as the migration makes it", mark, next))
	}
	return err
}

func failed(resource string, err error) error {
	return fmt.Errorf("fencesql: check the token of %q in the table pawl_fence: %w", resource, err)
}

// The name of a lock may have a NUL, which PostgreSQL has in no text.
var (
	escaper   = strings.NewReplacer("%", "%25", "\x00", "%00")
	unescaper = strings.NewReplacer("%25", "%", "%00", "\x00")
)

func escape(key string) string   { return escaper.Replace(key) }
func unescape(key string) string { return unescaper.Replace(key) }
