package reconcile_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/safecall"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// An event that disappears between the list and the read must be a gap. The next run must
// retry it.
func TestDisappearedEventIsGap(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t)
	keys := s.happen(t, 5)
	s.platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 404, Operation: "events.get", Skip: 2, Times: 1})
	report := s.reconcile(t, nil)
	assert.Equal(t, slices.Delete(slices.Clone(keys), 2, 3), report.Recovered)
	require.Len(t, report.Gaps, 1)
	gap, gone := report.Gaps[0], s.platform.Events()[2]
	assert.Equal(t, gone.ID, gap.EventID)
	assert.Equal(t, gone.Type, string(gap.Type))
	assert.Equal(t, events.GroupOrders, gap.Group)
	assert.True(t, gap.From.Equal(gone.CreatedAt.Truncate(time.Millisecond)) && gap.To.Equal(gap.From))
	assert.Equal(t, gone.Type+" "+gone.ID+" of 2026-03-04T15:06:09Z", gap.String())
	s.clock.Advance(48 * time.Hour)
	assert.Equal(t, keys[2:3], s.reconcile(t, nil).Recovered)
	s.finish(t, keys...)
}

// An event that expires during the run must be reported as lost.
func TestExpiredEventIsLost(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t)
	lost := s.happen(t, 2)
	s.clock.Advance(24 * time.Hour)
	keys := s.happen(t, 5)
	s.clock.Advance(29*24*time.Hour - time.Minute)
	report := s.reconcile(t, s.rewritten(func(r *http.Request, _ map[string]any) {
		if strings.HasSuffix(r.URL.Path, "/events/orders") {
			s.clock.Advance(time.Hour)
		}
	}))
	assert.Equal(t, keys, report.Recovered)
	require.Len(t, report.Gaps, 2)
	assert.Equal(t, []string{lost[0].EventID, lost[1].EventID}, []string{report.Gaps[0].EventID, report.Gaps[1].EventID})
	assert.Empty(t, s.reconcile(t, nil).Gaps)
	s.finish(t, keys...)
}

// If a proxy responds with 404 to everything, no event may be reported as lost.
func TestProxy404LosesNoEvent(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t)
	keys := s.happen(t, 20)
	fault := s.platform.Fault(model.Fault{Effect: model.EffectProxyError, Status: 404, Operation: "events.get"})
	for range 2 {
		s.fails(t, api.ErrUntrusted, nil)
		s.clock.Advance(48 * time.Hour)
	}
	assert.LessOrEqual(t, len(s.platform.Journal.Requests("events.get")), 6)
	fault.Remove()
	assert.Equal(t, slices.Concat(keys[3:], keys[:3]), s.reconcile(t, nil).Recovered, "events that failed twice come last")
	s.finish(t, keys...)
}

// An event dated in the future must hide no later event, even if the clock of the machine is
// wrong.
func TestFutureDateHidesNoEvent(t *testing.T) {
	t.Parallel()
	for _, fast := range []time.Duration{0, 48 * time.Hour, -2 * time.Hour} {
		t.Run(fast.String(), func(t *testing.T) {
			t.Parallel()
			s := newLossyFixture(t)
			keys := s.orders(t, 1)
			run := func() []webhook.Key {
				return s.reconcile(t, func(c *config) {
					s.dated(time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC), keys[0].EventID)(c)
					c.Now = func() time.Time { return s.clock.Now().Add(fast) }
				}).Recovered
			}
			assert.Equal(t, keys, run())
			for range 3 {
				s.clock.Advance(10 * time.Minute)
				later := s.orders(t, 1)
				s.clock.Advance(10 * time.Minute)
				assert.Equal(t, later, run())
				keys = append(keys, later...)
			}
			s.finish(t, keys...)
		})
	}
}

// A failed delivery dated in the future must hide no later delivery of events outside the
// lists.
func TestFutureAttemptHidesNoDelivery(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.broken.Store(true)
	keys := s.orders(t, 1)
	run := func() []webhook.Key {
		return s.reconcile(t, func(c *config) {
			s.dated(time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC), keys[0].EventID)(c)
			c.Groups = []events.Group{events.GroupClinicKeys}
			c.Now = func() time.Time { return s.clock.Now().Add(48 * time.Hour) }
		}).Recovered
	}
	assert.Equal(t, keys, run())
	later := s.orders(t, 1)
	assert.Equal(t, later, run())
	s.finish(t, append(keys, later...)...)
}

// Events after the last run, but older than the platform keeps, are lost in a gap.
func TestLongPauseIsReportedAsGap(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	assert.Empty(t, s.reconcile(t, nil).Gaps)
	began := s.clock.Now()
	s.platform.Fault(model.Fault{Effect: model.EffectDeliveryLost})
	s.clock.Advance(time.Hour)
	s.happen(t, 5) // too old at the next run
	s.clock.Advance(20 * 24 * time.Hour)
	keys := s.happen(t, 5)
	s.clock.Advance(20 * 24 * time.Hour)
	report := s.reconcile(t, nil)
	assert.Equal(t, keys, report.Recovered)
	require.Len(t, report.Gaps, 5)
	for i, group := range events.Groups() {
		gap := report.Gaps[i]
		assert.Equal(t, reconcile.Gap{Group: group, From: began, To: s.clock.Now().Add(-30 * 24 * time.Hour)}, gap)
		assert.Equal(t, string(group)+" from 2026-03-04T15:06:07Z to 2026-03-14T16:06:17Z", gap.String())
	}
	assert.Empty(t, s.reconcile(t, nil).Gaps, "a gap is reported once")
	s.finish(t, keys...)
}

// refusing returns an inbox that rejects some keys with an error, or panics on them.
func (s *fixture) refusing(err error, keys ...webhook.Key) func(*config) {
	return func(c *config) {
		c.Inbox = hooked{s.inbox, func(_ context.Context, method string, d webhook.Delivery) error {
			if method != "Accept" || !slices.Contains(keys, d.Key) {
				return nil
			}
			if errors.Is(err, errPanics) {
				panic("nil map")
			}
			return err
		}}
	}
}

var errPanics = errors.New("panics")

// Events that the inbox always rejects must block no other event, regardless of their number,
// and must be retried.
func TestRejectedEventsBlockNoOther(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err, matches error
		from, to     int
	}{
		"two":        {errors.New("no"), webhook.ErrInbox, 3, 5},
		"unstorable": {webhook.ErrUnstorable, webhook.ErrUnstorable, 0, 6},
		"panic":      {errPanics, safecall.ErrPanic, 0, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLossyFixture(t)
			keys := s.orders(t, 9)
			bad := keys[c.from:c.to]
			for run := range 3 {
				report, err := s.reconciler(t, s.refusing(c.err, bad...)).Run(t.Context())
				if run == 0 {
					require.ErrorIs(t, err, webhook.ErrInbox)
					require.ErrorIs(t, err, c.matches)
					assert.Equal(t, slices.Delete(slices.Clone(keys), c.from, c.to), report.Recovered)
					require.Len(t, report.Gaps, len(bad))
				} else {
					require.NoError(t, err, "a known rejection is no error")
					assert.Empty(t, report.Recovered)
				}
				require.Len(t, report.Gaps, len(bad))
				for n, gap := range report.Gaps {
					assert.Equal(t, bad[n].EventID, gap.EventID)
					assert.Equal(t, events.GroupOrders, gap.Group)
					assert.ErrorIs(t, gap.Err, c.matches)
				}
			}
			assert.Equal(t, bad, s.reconcile(t, nil).Recovered)
			s.finish(t, keys...)
		})
	}
}

// If the inbox is full, closed or failing, the run must end without gaps, and no event may
// count as recovered.
func TestFailingInboxEndsRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		reads int
	}{
		"fails":  {errors.New("no"), 5}, // after three failures
		"full":   {webhook.ErrInboxFull, 5},
		"closed": {webhook.ErrInboxClosed, 3}, // at once
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLossyFixture(t)
			keys := s.orders(t, 9)
			report, err := s.fails(t, webhook.ErrInbox, s.refusing(c.err, keys[2:]...))
			require.ErrorIs(t, err, c.err)
			assert.Equal(t, keys[:2], report.Recovered)
			assert.Empty(t, report.Gaps)
			assert.Equal(t, c.reads, report.Reads)
			assert.Equal(t, keys[2:], s.reconcile(t, nil).Recovered)
			s.finish(t, keys...)
		})
	}
}

// A rejection for one integration must not affect the other.
func TestRejectionAffectsOneIntegration(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t, dispensarytest.WithTuning(dispensarytest.Tuning{Integrations: 2}))
	keys := s.orders(t, 1)
	require.Len(t, keys, 2)
	report, _ := s.fails(t, webhook.ErrUnstorable, s.refusing(webhook.ErrUnstorable, keys[0]))
	assert.Equal(t, keys[1:], report.Recovered)
	s.finish(t, keys[1:]...)
}
