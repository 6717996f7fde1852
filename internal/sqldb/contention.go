package sqldb

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/internal/jitter"
)

// A statement that lost to a concurrent one is repeated until the caller's ctx ends, for at
// most Patience. Each wait lasts at most longestWait.
const (
	Patience    = time.Minute
	longestWait = 32 * time.Millisecond
)

// IsContention reports whether the database rejected a statement because of concurrent ones and
// executed no part of it: a deadlock, a serialization failure if the connection's isolation level
// is stricter than necessary, the end of a lock_timeout, or a busy SQLite file. The drivers are not
// imported, so IsContention matches the methods of their errors or, without such methods, the error
// text.
func IsContention(err error) bool {
	var state interface{ SQLState() string } // pgx, pq
	if errors.As(err, &state) {
		return state.SQLState() == "40001" || state.SQLState() == "40P01" || state.SQLState() == "55P03"
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

// Retry calls run, and calls it again if [IsContention] reports true for its error. It returns the
// error of the last call.
func Retry(ctx context.Context, run func() error) error {
	for turn := new(Turns); ; {
		err := run()
		if err == nil || !IsContention(err) || !turn.Next(ctx) {
			return err
		}
	}
}

// Turns counts the attempts of one statement and waits between them.
type Turns struct {
	Tries int // so far
	until time.Time
}

// Next waits a random time, longer after each attempt, and reports whether the statement may
// run again. It returns false once Patience has passed or ctx has ended.
func (t *Turns) Next(ctx context.Context) bool {
	now := time.Now()
	switch {
	case t.Tries == 0:
		t.until = now.Add(Patience)
	case now.After(t.until):
		return false
	}
	t.Tries++
	timer := time.NewTimer(jitter.Backoff(t.Tries, time.Millisecond, longestWait))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
