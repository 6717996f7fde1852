package sqlstore

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/sqldb"
)

// dialect is the SQL dialect of a database.
type dialect string

// SQL dialects. See the README for the tested versions.
const (
	postgreSQL dialect = "postgresql" // 12 and later
	mySQL      dialect = "mysql"      // MySQL 8.0 and later, MariaDB 10.6 and later
	sqlite     dialect = "sqlite"     // 3.37 and later
)

// detect returns the dialect of a database.
func detect(ctx context.Context, db *sql.DB) (dialect, error) {
	d, err := sqldb.DialectOf(ctx, db)
	switch {
	case err != nil:
		return "", failed(ctx, "detect the database", err)
	case scripts[dialect(d)] == "":
		return "", &api.ArgumentError{Field: "sqlstore.Open db", Reason: "must be PostgreSQL, MySQL, MariaDB or SQLite"}
	}
	return dialect(d), nil
}

// clock returns the SQL expression for the database's time in microseconds. SQLite has no
// clock of its own: it runs in this process and uses the clock of this machine, as does every
// other process that has the file open.
func (d dialect) clock() string {
	switch d {
	case postgreSQL:
		return `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	case mySQL:
		return `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`
	}
	return `:now`
}

// greatest returns the name of the SQL function for the greater of two values.
func (d dialect) greatest() string {
	if d == sqlite {
		return "max"
	}
	return "greatest"
}

// values are the parameters of a statement by name.
type values map[string]any

// statement is SQL with the names of its parameters in the order of the placeholders.
type statement struct {
	text  string
	names []string
}

// compile replaces each :name with a placeholder of the dialect. PostgreSQL numbers its
// placeholders. The other databases need a value for every occurrence. The SQL of this package
// contains no other colons except PostgreSQL's casts.
func (d dialect) compile(query string) statement {
	var s statement
	var b strings.Builder
	for {
		before, after, found := strings.Cut(query, ":")
		b.WriteString(before)
		if !found {
			break
		}
		if strings.HasPrefix(after, ":") {
			b.WriteString("::")
			query = after[1:]
			continue
		}
		end := strings.IndexFunc(after, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' })
		if end < 0 {
			end = len(after)
		}
		b.WriteString(s.placeholder(d, after[:end]))
		query = after[end:]
	}
	s.text = b.String()
	return s
}

// placeholder records a parameter and returns its placeholder.
func (s *statement) placeholder(d dialect, name string) string {
	if d == postgreSQL {
		for i, known := range s.names {
			if known == name {
				return "$" + strconv.Itoa(i+1)
			}
		}
	}
	s.names = append(s.names, name)
	if d == postgreSQL {
		return "$" + strconv.Itoa(len(s.names))
	}
	return "?"
}

// args returns the values in the order of the placeholders.
func (s statement) args(v values) []any {
	args := make([]any, len(s.names))
	for i, name := range s.names {
		args[i] = v[name]
		if name == "now" {
			args[i] = time.Now().UnixMicro()
		}
	}
	return args
}

// ignores reports whether the statement is an INSERT IGNORE. For such a statement MySQL sets
// the last inserted ID even if it changed no row.
func (s statement) ignores() bool { return strings.HasPrefix(s.text, insertIgnore) }

// writes reports whether the statement changes rows.
func (s statement) writes() bool { return !strings.HasPrefix(s.text, "SELECT") }

// statements contains the SQL of a store, compiled for its dialect.
type statements struct {
	checkDelete, checkInsert, claim, claimPick, claimTake, clinics, commit, fail, forgetVersion, lease, load, postpone, probe, release, save, saveNew, saveVersion statement

	list map[listed]statement
}

// listed contains the filters of a list.
type listed struct{ state, clinic bool }

// columns are the columns of a record, in the order of scan.
const columns = `username, version, state, reason, access_token, refresh_token, details`

// row selects a user's row.
const row = ` WHERE environment = :environment AND username = :username`

// mine selects a user's row if its version and the owner of its lease are unchanged.
const mine = row + ` AND version = :version AND lease_owner = :owner`

// free is true if no other owner has an unexpired lease on the row.
const free = `(lease_owner = '' OR lease_until <= {clock})`

// written contains the columns that every write sets.
const written = `version = {next}, lease_owner = '', lease_until = 0`

// active and marked contain the state that a write sets.
const (
	active = `state = 'active', reason = '', `
	marked = `state = 'reauthorize', reason = :reason, `
)

// content contains the columns of a token.
const content = `access_token = :access, refresh_token = :refresh,
	details = :details, clinic_id = :clinic, due_at = :due, used_at = :used`

// taken contains the columns of a new lease.
const taken = `lease_owner = :owner, lease_until = {until}`

// due selects due rows through the index.
const due = ` FROM dispensary_oauth_tokens WHERE environment = :environment AND state = 'active' AND due_at >= :from AND due_at < :before
	AND used_at >= :used AND ` + free + ` ORDER BY due_at LIMIT :limit`

// insert follows INSERT or INSERT IGNORE.
const insert = ` INTO dispensary_oauth_tokens (environment, username, version, state, reason,
	access_token, refresh_token, details, clinic_id, due_at, used_at, lease_owner, lease_until)
	VALUES (:environment, :username, {first}, 'active', '', :access, :refresh, :details, :clinic, :due, :used, '', 0)`

// insertIgnore is the beginning of an INSERT that changes nothing if the row exists.
const insertIgnore = `INSERT IGNORE`

// Parts of the list statement: its beginning, its filters and its end.
const (
	list     = `SELECT username, version, state, reason, details FROM dispensary_oauth_tokens WHERE environment = :environment AND username > :after`
	ofState  = ` AND state = :state`
	ofClinic = ` AND clinic_id = :clinic AND clinic_id <> ''` // the index contains only rows with a clinic
	page     = ` ORDER BY username LIMIT :limit`
)

// newStatements returns the SQL of a dialect. If the dialect can, a write returns the written
// columns. MySQL cannot. Its writes return the new version, or the end of the lease, as the
// last inserted ID, set with LAST_INSERT_ID(expression).
func newStatements(d dialect) statements {
	first, next, until := d.clock(), d.greatest()+`(dispensary_oauth_tokens.version + 1, `+d.clock()+`)`, d.clock()+` + :ttl`
	returning := func(columns string) string { return ` RETURNING ` + columns }
	conflict := ` ON CONFLICT (environment, username) DO UPDATE SET `
	insertNew, unless, skip := `INSERT`, ` ON CONFLICT (environment, username) DO NOTHING`, ""
	switch d {
	case mySQL:
		first, next, until = `LAST_INSERT_ID(`+first+`)`, `LAST_INSERT_ID(`+next+`)`, `LAST_INSERT_ID(`+until+`)`
		returning = func(string) string { return "" }
		conflict = ` ON DUPLICATE KEY UPDATE `
		insertNew, unless = insertIgnore, ""
		skip = ` FOR UPDATE SKIP LOCKED`
	case postgreSQL:
		skip = ` FOR UPDATE SKIP LOCKED`
	}
	sql := func(parts ...string) statement {
		text := strings.Join(parts, "")
		text = strings.NewReplacer("{first}", first, "{next}", next, "{until}", until).Replace(text)
		return d.compile(strings.ReplaceAll(text, "{clock}", d.clock()))
	}
	update := `UPDATE dispensary_oauth_tokens SET `
	return statements{
		checkDelete: sql(`DELETE FROM dispensary_oauth_tokens`, row),
		checkInsert: sql(`INSERT`, insert),
		// Without MATERIALIZED a planner may run the subquery more than once.
		claim: sql(`WITH picked AS MATERIALIZED (SELECT environment, username`, due, skip, `) `, update, taken,
			` WHERE (environment, username) IN (SELECT environment, username FROM picked)`, returning(columns+`, due_at`)),
		claimPick: sql(`SELECT `, columns, `, due_at`, due, skip),
		claimTake: sql(update, taken, ` WHERE environment = :environment AND username IN `), // followed by a list of the picked users
		clinics: sql(`SELECT DISTINCT clinic_id FROM dispensary_oauth_tokens
			WHERE environment = :environment AND clinic_id > :after AND clinic_id <> '' ORDER BY clinic_id LIMIT :limit`),
		commit:        sql(update, active, content, `, `, written, mine, returning(`version`)),
		fail:          sql(update, marked, content, `, `, written, mine, returning(`version`)),
		forgetVersion: sql(`DELETE FROM dispensary_oauth_tokens`, row, ` AND version = :version`),
		lease:         sql(update, taken, row, ` AND version = :version AND (lease_owner = :owner OR `, free, `)`, returning(columns)),
		list: map[listed]statement{
			{}:                          sql(list, page),
			{state: true}:               sql(list, ofState, page),
			{clinic: true}:              sql(list, ofClinic, page),
			{state: true, clinic: true}: sql(list, ofClinic, ofState, page),
		},
		load:        sql(`SELECT `, columns, ` FROM dispensary_oauth_tokens`, row),
		postpone:    sql(update, `due_at = :due, lease_owner = '', lease_until = 0`, mine),
		probe:       sql(`SELECT version FROM dispensary_oauth_tokens`, row),
		release:     sql(update, `lease_owner = '', lease_until = 0`, mine),
		save:        sql(`INSERT`, insert, conflict, active, content, `, `, written, returning(`version`)),
		saveNew:     sql(insertNew, insert, unless, returning(`version`)),
		saveVersion: sql(update, active, content, `, `, written, row, ` AND version = :version`, returning(`version`)),
	}
}
