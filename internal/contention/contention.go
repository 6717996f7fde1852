// Package contention knows when a database has given up a statement because of
// others, and how long to go on trying. The stores on SQL share it; they are modules of
// their own that may be of another version than this one, so what is exported here
// stays as it is.
package contention

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"
)

// A statement that lost against others is repeated until the caller's ctx ends, for
// Patience at most, after waits of longestWait at most.
const (
	Patience    = time.Minute
	longestWait = 32 * time.Millisecond
)

// Is reports a statement that the database gave up without a trace,
// because of what others were doing: a deadlock, a serialization failure where
// the connection's isolation is stricter than it needs to be, or SQLite's busy
// file. The drivers are not imported, so their errors are known by their methods
// and, where they have none, by their words.
func Is(err error) bool {
	var state interface{ SQLState() string } // pgx, pq
	if errors.As(err, &state) {
		return state.SQLState() == "40001" || state.SQLState() == "40P01"
	}
	var code interface{ Code() int } // modernc.org/sqlite
	if errors.As(err, &code) {
		const busy, locked = 5, 6
		return code.Code()&0xff == busy || code.Code()&0xff == locked
	}
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "Error 1213") || // go-sql-driver/mysql: deadlock
		strings.Contains(text, "Error 1020") || // MariaDB 11.6 and later: the row has changed since the snapshot
		strings.Contains(text, "database is locked") // mattn/go-sqlite3
}

// Retry runs a statement, and runs it again where the database gave it up because of
// others. It returns the error of the last run.
func Retry(ctx context.Context, run func() error) error {
	for turn := new(Turns); ; {
		err := run()
		if err == nil || !Is(err) || !turn.Next(ctx) {
			return err
		}
	}
}

// Turns is how one statement waits for its turn.
type Turns struct {
	Tries int // so far
	until time.Time
}

// Next waits a little, longer after every try, and reports that another one may
// be worth it.
func (t *Turns) Next(ctx context.Context) bool {
	now := time.Now()
	switch {
	case t.Tries == 0:
		t.until = now.Add(Patience)
	case now.After(t.until):
		return false
	}
	longest := min(time.Millisecond<<min(t.Tries, 10), longestWait)
	t.Tries++
	timer := time.NewTimer(longest/2 + rand.N(longest/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
