package riverinbox_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// alone limits an inbox to one event at a time.
func alone(c *riverinbox.Config) {
	ordered(c)
	c.Work.Workers = 1
}

// TestOvertakenAttemptChangesNothing releases a running attempt. It ends while another process
// makes the next one.
func TestOvertakenAttemptChangesNothing(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]error{
		"handled": nil, "failed": errDown, "dead": errBad, "in transaction": errWrite,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			d.exec(t, "CREATE TABLE effects (key text NOT NULL)")
			for _, event := range []webhook.Delivery{in(free, 1), in("a", 1)} {
				handle, begun := calls(t)
				first, made := d.start(t, handle, alone)
				acceptNew(t, first, event)
				one := next(t, begun)
				second, madeBySecond := d.start(t, handle, alone)
				d.exec(t, "UPDATE river_job SET state = 'available' WHERE state = 'running'")
				two := next(t, begun)
				require.Equal(t, 2, two.Attempt)
				before := d.of(t, event, "j")
				one.end <- outcome
				require.ErrorIs(t, next(t, made).Err, engine.ErrClaimLost)
				require.NoError(t, first.Close(t.Context())) // waits for everything that River records
				assert.Equal(t, before, d.of(t, event, "j"))
				const effects = "SELECT count(*) FROM effects WHERE key = $1"
				assert.Zero(t, count(t, d, effects, event.Key.String()))
				two.end <- errWrite
				assert.Equal(t, webhook.ResultHandled, next(t, madeBySecond).Result)
				d.allEnd(t)
				assert.Equal(t, 1, count(t, d, effects, event.Key.String()))
				require.NoError(t, second.Close(t.Context()))
			}
		})
	}
}

// TestOvertakenAttemptKeepsNextAttempt lets one process make two attempts of an event with the
// same number. The end of the first must not end the second, or make it look abandoned.
func TestOvertakenAttemptKeepsNextAttempt(t *testing.T) {
	t.Parallel()
	d, inbox, begun, made := newInbox(t, func(c *riverinbox.Config) { c.TakeOver = 3 * time.Second })
	event := in(free, 1)
	acceptNew(t, inbox, event)
	one := next(t, begun)
	d.exec(t, "UPDATE river_job SET state = 'available', attempt = 0 WHERE state = 'running'")
	two := next(t, begun)
	require.Equal(t, one.Attempt, two.Attempt)
	one.end <- nil
	assert.Equal(t, webhook.ResultLost, next(t, made).Result)
	before := d.of(t, event, "j")
	d.beats(t, inbox, 4)
	assert.Equal(t, before, d.of(t, event, "j"))
	two.end <- nil
	assert.Equal(t, webhook.ResultHandled, next(t, made).Result)
	assert.Empty(t, begun)
}

// deaf is a connection that loses the response to a completion once it is armed.
type deaf struct {
	net.Conn
	armed *atomic.Bool
	lose  atomic.Bool
}

func (c *deaf) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(`"state":"completed"`)) && c.armed.CompareAndSwap(true, false) {
		c.lose.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *deaf) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p) // the response follows the commit
	if c.lose.Load() {
		_ = c.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// TestOutcomeWithLostResponseIsRecorded loses the database's response to a stored outcome.
func TestOutcomeWithLostResponseIsRecorded(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	config := d.pool(t).Config()
	var armed atomic.Bool
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &deaf{Conn: conn, armed: &armed}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	handle, begun := calls(t)
	c := d.config(t, handle)
	ordered(&c)
	made := receivertest.Observe(&c.Work)
	inbox := open(t, pool, c)
	for _, event := range []webhook.Delivery{in(free, 1), in("a", 1)} {
		acceptNew(t, inbox, event)
		call := next(t, begun)
		armed.Store(true)
		call.end <- nil
		a := next(t, made)
		assert.Equal(t, webhook.ResultHandled, a.Result)
		assert.False(t, armed.Load(), "the response was not lost")
		d.becomes(t, "completed", event)
	}
}

// TestJobWithoutHandlerIsReleased assigns jobs without a handler to this process.
func TestJobWithoutHandlerIsReleased(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inbox := d.idle(t, d.config(t, receivertest.Succeed))
	lost, canceled, moved, other := in(free, 1), in(free, 2), in(free, 3), in(free, 4)
	acceptNew(t, inbox, lost, canceled, moved, other)
	d.exec(t, "UPDATE river_job SET state = 'running', attempt = 1, attempted_by = ARRAY['dispensary_before', $1]", inbox.Name())
	d.exec(t, "UPDATE river_job SET attempted_by = ARRAY[$1, 'dispensary_other'] WHERE id = $2", inbox.Name(), d.job(t, other))
	d.exec(t, `UPDATE river_job SET metadata = metadata || '{"cancel_attempted_at": "now"}' WHERE id = $1`, d.job(t, canceled))
	require.NoError(t, inbox.Beat(t.Context())) // otherwise the sweep takes this process for dead
	d.exec(t, "INSERT INTO inbox_worker VALUES ('dispensary_other', 1)")
	d.exec(t, "UPDATE river_job SET attempted_at = now() WHERE id <> $1", d.job(t, other))
	require.NoError(t, inbox.Sweep(t.Context()))
	d.becomes(t, "running", lost, canceled, moved, other)
	d.exec(t, "UPDATE river_job SET attempted_at = now() - interval '1 hour' WHERE id <> $1", d.job(t, moved))
	d.exec(t, "UPDATE river_job SET attempted_at = now() + interval '1 hour' WHERE id = $1", d.job(t, canceled)) // before a correction of the clock
	require.NoError(t, inbox.Sweep(t.Context()))
	d.becomes(t, "available", lost)
	d.becomes(t, "cancelled", canceled)
	d.becomes(t, "running", moved, other)
	assert.Equal(t, "1 "+webhook.ErrAbandoned.Error(), d.of(t, lost, "attempt || ' ' || (errors[1]->>'error')"))
}

// TestCutOffProcessEndsHandlersFirst cuts off a process whose handler runs for much longer
// than TakeOver. The handler's context must end before another process handles the event, and
// not before the cut. Its late outcome must change nothing.
func TestCutOffProcessEndsHandlersFirst(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	handle, begun := calls(t)
	short := func(c *riverinbox.Config) { alone(c); c.TakeOver = 2 * time.Second }
	c := d.config(t, handle)
	short(&c)
	made := receivertest.Observe(&c.Work)
	pool, network := d.connect(t)
	first := open(t, pool, c)
	event := in("a", 1)
	acceptNew(t, first, event)
	one := next(t, begun)
	second, madeBySecond := d.start(t, handle, short)
	d.beats(t, second, 15) // at least 3.7 s
	require.NoError(t, one.ctx.Err())
	require.Empty(t, begun, "another process overtakes a live one")
	network.cut()
	two := next(t, begun)
	require.Error(t, one.ctx.Err(), "both handlers may run")
	assert.Equal(t, event.Key, two.Key)
	assert.Equal(t, 2, two.Attempt)
	network.resume()
	d.beats(t, first, 2)
	one.end <- nil
	assert.Equal(t, webhook.ResultLost, next(t, made).Result)
	two.end <- nil
	assert.Equal(t, webhook.ResultHandled, next(t, madeBySecond).Result)
	d.allEnd(t)
	assert.Empty(t, begun)
}
