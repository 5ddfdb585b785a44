package fencesql

import (
	"fmt"
	"strings"
)

// A Dialect is how a kind of database wants to be spoken to.
type Dialect string

// The dialects.
const (
	PostgreSQL Dialect = "postgres" // 9.5 or later
	MySQL      Dialect = "mysql"    // 5.7 or later, and MariaDB 10.3 or later
	SQLite     Dialect = "sqlite"   // 3.35 or later
)

// Dialects returns all of them.
func Dialects() []Dialect { return []Dialect{PostgreSQL, MySQL, SQLite} }

// ParseDialect returns the dialect of that name, or an error that names all.
func ParseDialect(name string) (Dialect, error) {
	var names []string
	for _, d := range Dialects() {
		if string(d) == name {
			return d, nil
		}
		names = append(names, string(d))
	}
	return "", fmt.Errorf("%q is no dialect: there are %s", name, strings.Join(names, ", "))
}

func (d Dialect) mustBeKnown() {
	if _, ok := statements[d]; !ok {
		panic(fmt.Sprintf("fencesql: %q is no dialect", string(d)))
	}
}

// Migration returns the statement that makes the table pawl_fence. It is empty
// where the table exists already. Run it once, with whatever runs your migrations:
// a guard never changes a schema.
func Migration(d Dialect) string {
	d.mustBeKnown()
	return statements[d].table
}

// What is said in each dialect. Parameters are the resource, the name of the
// lock, and the number as one who holds exclusively and as one who shares, of
// which one is 0.
var statements = map[Dialect]struct {
	table string
	raise string // and returns the mark, unless there is a read
	read  string
}{
	// At READ COMMITTED, the default, ON CONFLICT locks the row as it was committed
	// last, and its expressions see that. Two that insert at the same time wait for
	// each other in the primary key.
	PostgreSQL: {
		table: `CREATE TABLE IF NOT EXISTS pawl_fence (
	resource  text COLLATE "C" NOT NULL PRIMARY KEY, -- what is protected
	lock_name text COLLATE "C" NOT NULL,             -- whose tokens are compared
	exclusive bigint NOT NULL,                       -- the highest token seen, of those who held the lock alone
	shared    bigint NOT NULL                        -- and of those who shared it
);
`,
		raise: `INSERT INTO pawl_fence AS f (resource, lock_name, exclusive, shared) VALUES ($1, $2, $3, $4)
ON CONFLICT (resource) DO UPDATE SET
	exclusive = CASE WHEN f.lock_name = excluded.lock_name AND f.exclusive <= excluded.exclusive AND f.shared <= excluded.exclusive
		THEN excluded.exclusive ELSE f.exclusive END,
	shared = CASE WHEN f.lock_name = excluded.lock_name AND f.exclusive <= excluded.shared
		THEN greatest(f.shared, excluded.shared) ELSE f.shared END
RETURNING lock_name, exclusive, shared`,
	},

	// The upsert locks the row, and sees what was committed last. A plain read might
	// not, at REPEATABLE READ: FOR UPDATE does. Assignments take effect from left to
	// right, and what the second reads of the first is as it was whenever it matters:
	// only the number of the token's own kind is raised. Names are bytes, which no
	// collation folds and no padding fills.
	MySQL: {
		table: `CREATE TABLE IF NOT EXISTS pawl_fence (
	resource  varbinary(512) NOT NULL PRIMARY KEY, -- what is protected
	lock_name mediumblob NOT NULL,                 -- whose tokens are compared
	exclusive bigint NOT NULL,                     -- the highest token seen, of those who held the lock alone
	shared    bigint NOT NULL                      -- and of those who shared it
) ENGINE=InnoDB;
`,
		raise: `INSERT INTO pawl_fence (resource, lock_name, exclusive, shared) VALUES (?, ?, ?, ?)
ON DUPLICATE KEY UPDATE
	exclusive = IF(lock_name = VALUES(lock_name) AND exclusive <= VALUES(exclusive) AND shared <= VALUES(exclusive), VALUES(exclusive), exclusive),
	shared = IF(lock_name = VALUES(lock_name) AND exclusive <= VALUES(shared), GREATEST(shared, VALUES(shared)), shared)`,
		read: `SELECT lock_name, exclusive, shared FROM pawl_fence WHERE resource = ? FOR UPDATE`,
	},

	// Writing transactions are one after the other.
	SQLite: {
		table: `CREATE TABLE IF NOT EXISTS pawl_fence (
	resource  TEXT NOT NULL PRIMARY KEY, -- what is protected
	lock_name TEXT NOT NULL,             -- whose tokens are compared
	exclusive INTEGER NOT NULL,          -- the highest token seen, of those who held the lock alone
	shared    INTEGER NOT NULL           -- and of those who shared it
) WITHOUT ROWID;
`,
		raise: `INSERT INTO pawl_fence AS f (resource, lock_name, exclusive, shared) VALUES (?, ?, ?, ?)
ON CONFLICT (resource) DO UPDATE SET
	exclusive = CASE WHEN f.lock_name = excluded.lock_name AND f.exclusive <= excluded.exclusive AND f.shared <= excluded.exclusive
		THEN excluded.exclusive ELSE f.exclusive END,
	shared = CASE WHEN f.lock_name = excluded.lock_name AND f.exclusive <= excluded.shared
		THEN max(f.shared, excluded.shared) ELSE f.shared END
RETURNING lock_name, exclusive, shared`,
	},
}
