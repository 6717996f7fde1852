package sqlinbox

import (
	"strconv"
	"testing"
	"time"
)

// Crash ends an inbox as the end of its process would: nothing is noted any
// more, the lock is gone, and handlers go on without effect.
func (i *Inbox) Crash() {
	i.closeOnce.Do(func() {
		close(i.stopping)
		i.writer.once.Do(func() { close(i.writer.stop) })
		<-i.writer.stopped
		i.loops.Wait()
		for _, release := range i.release {
			_ = release()
		}
	})
}

// WithClock sets what time an inbox takes it for, and the margin of its claims.
func (c Config) WithClock(now func() time.Time, margin time.Duration) Config {
	c.now, c.margin = now, margin
	return c
}

// Purge deletes what is due for it.
func (i *Inbox) Purge() error { return i.purge() }

// BusyTimeout sets how many milliseconds the writer waits for the database.
func (i *Inbox) BusyTimeout(t testing.TB, ms int) {
	err := i.writer.do(t.Context(), func(x *tx) error {
		_, err := x.conn.ExecContext(t.Context(), "PRAGMA busy_timeout = "+strconv.Itoa(ms))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
