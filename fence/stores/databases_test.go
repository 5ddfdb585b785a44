package stores_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/pawlock/pawl/fence/fencesql"
	"github.com/pawlock/pawl/internal/testserver"
)

// A database is a server, or a file, with the table of the guards and one that
// they protect.
type database struct {
	dialect fencesql.Dialect
	open    func() *sql.DB // each call is another process
	restart func()         // after a crash; nil: there is no server
}

func postgres(t *testing.T) *database {
	server := testserver.StartPostgres(t)
	return ready(t, &database{dialect: fencesql.PostgreSQL, restart: func() { server.Kill(); server.Start() },
		open: func() *sql.DB {
			return connect(t, "pgx", "postgres://postgres@"+server.Addr+"/postgres?sslmode=disable")
		}})
}

func mariaDB(t *testing.T) *database {
	server := testserver.StartMariaDB(t)
	return ready(t, &database{dialect: fencesql.MySQL, restart: func() { server.Kill(); server.Start() },
		open: func() *sql.DB { return connect(t, "mysql", "root@tcp("+server.Addr+")/test") }})
}

func sqliteFile(t *testing.T) *database {
	path := t.TempDir() + "/data.db"
	return ready(t, &database{dialect: fencesql.SQLite, open: func() *sql.DB {
		return connect(t, "sqlite", "file:"+path+"?_pragma=busy_timeout(30000)&_pragma=journal_mode(wal)")
	}})
}

func connect(t *testing.T, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(12)
	t.Cleanup(func() { db.Close() })
	return db
}

// ready makes the tables: that of the guards as users do, and the data.
func ready(t *testing.T, d *database) *database {
	t.Helper()
	db := d.open()
	entries := map[fencesql.Dialect]string{
		fencesql.PostgreSQL: `CREATE TABLE entry (n bigserial PRIMARY KEY, resource text, value text)`,
		fencesql.MySQL:      `CREATE TABLE entry (n bigint AUTO_INCREMENT PRIMARY KEY, resource varbinary(512), value mediumblob) ENGINE=InnoDB`,
		fencesql.SQLite:     `CREATE TABLE entry (n INTEGER PRIMARY KEY AUTOINCREMENT, resource TEXT, value TEXT)`,
	}
	for _, statement := range []string{fencesql.Migration(d.dialect), fencesql.Migration(d.dialect), entries[d.dialect]} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%v, of\n%s", err, statement)
		}
	}
	return d
}

// query writes the parameters as the dialect does.
func (d *database) query(text string) string {
	if d.dialect == fencesql.PostgreSQL {
		for n := 1; strings.Contains(text, "?"); n++ {
			text = strings.Replace(text, "?", fmt.Sprintf("$%d", n), 1)
		}
	}
	return text
}

func (d *database) append(ctx context.Context, tx *sql.Tx, resource, value string) error {
	_, err := tx.ExecContext(ctx, d.query("INSERT INTO entry (resource, value) VALUES (?, ?)"), resource, url.QueryEscape(value)) // PostgreSQL keeps no NUL
	return err
}

func (d *database) read(t *testing.T, db *sql.DB, resource string) []string {
	t.Helper()
	rows, err := db.QueryContext(context.Background(), d.query("SELECT value FROM entry WHERE resource = ? ORDER BY n"), resource)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var values []string
	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			t.Fatal(err)
		}
		if value, err = url.QueryUnescape(value); err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return values
}

// eachDatabase runs test on all databases.
func eachDatabase(t *testing.T, test func(t *testing.T, d *database)) {
	for _, c := range []struct {
		name  string
		start func(*testing.T) *database
	}{{"PostgreSQL", postgres}, {"MariaDB", mariaDB}, {"SQLite", sqliteFile}} {
		t.Run(c.name, func(t *testing.T) { test(t, c.start(t)) })
	}
}

// awaitWaiter waits until somebody waits for a row or an index entry.
func (d *database) awaitWaiter(t *testing.T) {
	t.Helper()
	db := d.open()
	query := map[fencesql.Dialect]string{
		fencesql.PostgreSQL: "SELECT count(*) FROM pg_locks WHERE NOT granted",
		fencesql.MySQL:      "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Innodb_row_lock_current_waits'",
	}[d.dialect]
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		var n int
		if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody waits")
		}
	}
}
