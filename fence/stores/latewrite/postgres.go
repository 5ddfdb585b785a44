package main

import (
	"context"
	"database/sql"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/pawlock/pawl/fence"
	"github.com/pawlock/pawl/fence/fencesql"
)

// A postgresAccount is the row of the table account.
type postgresAccount struct {
	db    *sql.DB
	guard *fencesql.Guard
}

func openPostgres(url string) (account, error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return nil, err
	}
	return &postgresAccount{db, fencesql.New(db, fencesql.PostgreSQL)}, nil
}

func (a *postgresAccount) balance(ctx context.Context) (balance int, err error) {
	err = a.db.QueryRowContext(ctx, "SELECT balance FROM account").Scan(&balance)
	return balance, err
}

func (a *postgresAccount) set(ctx context.Context, balance int) error {
	_, err := a.db.ExecContext(ctx, "UPDATE account SET balance = $1", balance)
	return err
}

func (a *postgresAccount) setGuarded(ctx context.Context, balance int) error {
	return fence.Do(ctx, a.guard, "account", func(ctx context.Context) error {
		tx, _ := fencesql.TxFromContext(ctx)
		_, err := tx.ExecContext(ctx, "UPDATE account SET balance = $1", balance)
		return err
	})
}
