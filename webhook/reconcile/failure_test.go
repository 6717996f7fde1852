package reconcile_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// readOnce holds that no event was read twice, but those that were refused.
func (s *fixture) readOnce(t *testing.T) {
	t.Helper()
	read := map[string]int{}
	for _, r := range s.platform.Journal().Of("events.get") {
		if r.Status == http.StatusOK {
			read[r.Path]++
		}
	}
	for path, n := range read {
		assert.Equal(t, 1, n, path)
	}
}

// A process that dies in the middle leaves its claim, and no record of the last events.
// The next process waits for the end of the claim, and reads nothing again.
func TestReconcilerSurvivesACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newLossyFixture(t)
		keys := s.happen(t, 350)
		died := errors.New("the process has died")
		accepted := 0
		dying := hooked{s.inbox, func(_ context.Context, method string, _ webhook.Delivery) error {
			if method == "Accept" {
				accepted++
			}
			if accepted > 250 {
				return died
			}
			return nil
		}}
		s.fails(t, died, func(c *config) { c.Inbox = dying })

		s.fails(t, reconcile.ErrCheckpointHeld, nil)
		time.Sleep(leaseTTL)
		report := s.reconcile(t, func(c *config) { c.Overlap = time.Second })
		assert.Equal(t, keys[250:], report.Recovered)
		listed := 0
		for _, group := range report.Groups {
			listed += group.Listed
		}
		assert.LessOrEqual(t, listed, 170, "the checkpoint was saved on the way")
		assert.Equal(t, 100, report.Reads, "the one that was read and not accepted is read again")
		s.finish(t, keys...)
	})
}

// A run that ends early, or in which several things go wrong at once, goes on where it was,
// and forgets nothing.
func TestReconcilerKeepsItsPlace(t *testing.T) {
	t.Parallel()
	failing := func(operation string, skip, times int) model.Fault {
		return model.Fault{Effect: model.ErrorStatus, Status: 500, Operation: operation, Skip: skip, Times: times}
	}
	limited := func(operation string, skip int) model.Fault {
		return model.Fault{Effect: model.TooManyRequests, Operation: operation, Skip: skip, Times: 1}
	}
	for name, c := range map[string]struct {
		faults       []model.Fault
		err          error
		first, reads int // that are recovered, and made, nevertheless
	}{
		"rate limited":              {[]model.Fault{limited("events.get", 7)}, api.ErrRateLimited, 7, 8},
		"server error":              {[]model.Fault{failing("events.get", 7, 3)}, api.ErrServer, 117, 120},
		"server error at the start": {[]model.Fault{failing("events.get", 0, 3)}, api.ErrServer, 0, 3},
		"token ends":                {[]model.Fault{{Effect: model.TokenExpired, Operation: "events.get", Skip: 7, Times: 1}}, api.ErrUnauthorized, 7, 8},
		"in a list":                 {[]model.Fault{limited("events.list_orders", 0)}, api.ErrRateLimited, 0, 0},
		"in the log":                {[]model.Fault{limited("webhook_deliveries.list", 0)}, api.ErrRateLimited, 0, 0},
		"some cannot be read":       {[]model.Fault{failing("events.get", 2, 1), failing("events.get", 30, 1), failing("events.get", 60, 1)}, api.ErrServer, 117, 120},
		"and then the limit":        {[]model.Fault{failing("events.get", 2, 1), limited("events.get", 50)}, api.ErrRateLimited, 50, 52},
		"the list ends too early":   {[]model.Fault{failing("events.list_orders", 1, 1)}, api.ErrServer, 100, 100},
		"the list, and then a read": {[]model.Fault{failing("events.list_orders", 1, 1), failing("events.get", 50, 1)}, api.ErrServer, 99, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLossyFixture(t)
			keys := s.orders(t, 120)
			for _, f := range c.faults {
				s.platform.Fault(f)
			}
			report, err := s.fails(t, c.err, nil)
			require.ErrorContains(t, err, "reconcile: run failed: ")
			assert.Len(t, s.platform.Journal().Of("events.get"), c.reads)
			assert.Len(t, report.Recovered, c.first)
			rest := s.reconcile(t, nil)
			assert.ElementsMatch(t, keys, append(report.Recovered, rest.Recovered...))
			assert.True(t, slices.IsSortedFunc(rest.Recovered, func(a, b webhook.Key) int { return slices.Index(keys, a) - slices.Index(keys, b) }), "in order")
			s.readOnce(t)
			s.finish(t, keys...)
		})
	}
}

// orders lets orders be placed, further apart than any overlap reaches.
func (s *fixture) orders(t *testing.T, n int) (keys []webhook.Key) {
	t.Helper()
	for range n {
		_, e, err := s.platform.Orders.Place(s.platform.Patients.All()[0].ID, model.NewOrder{})
		require.NoError(t, err)
		keys = append(keys, s.keys(e)...)
		s.clock.Advance(2 * time.Hour)
	}
	return keys
}

// An event without a date, which stands nowhere, is not forgotten either.
func TestReconcilerComesBackToWhatHasNoDate(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t)
	keys := s.orders(t, 5)
	s.platform.Fault(model.Fault{Effect: model.ErrorStatus, Status: 500, Operation: "events.get", Times: 1})
	report, err := s.reconciler(t, s.rewritten(func(_ *http.Request, body map[string]any) {
		for _, e := range items(body, "events") {
			if e["id"] == keys[0].EventID {
				e["created_at"] = nil
			}
		}
	})).Run(t.Context())
	require.ErrorIs(t, err, api.ErrServer)
	assert.Equal(t, keys[1:], report.Recovered)
	assert.Equal(t, keys[:1], s.reconcile(t, nil).Recovered)
	s.finish(t, keys...)
}

// An event that only the log has is not forgotten either.
func TestReconcilerComesBackToTheLog(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.broken.Store(true)
	keys := s.orders(t, 4)
	s.clock.Advance(24 * time.Hour) // so that no attempt is made any more
	read := func(c *config) {
		c.Groups = []reconcile.Group{reconcile.ClinicKeys}
		c.Events = s.rewriting(func(_ *http.Request, body map[string]any) {
			deleteFromLog(body, "data")
		})
	}
	s.platform.Fault(model.Fault{Effect: model.ErrorStatus, Status: 500, Operation: "events.get", Times: 1})
	report, _ := s.fails(t, api.ErrServer, read)
	assert.Equal(t, keys[1:], report.Recovered)
	assert.Equal(t, keys[:1], s.reconcile(t, read).Recovered)
	assert.Len(t, s.reconcile(t, read).FailedDeliveries, 1, "the others are old news")
	s.finish(t, keys...)
}

func TestReconcilerHonoursItsContext(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t)
	keys := s.happen(t, 10)
	ctx, cancel := context.WithCancel(t.Context())
	accepted := 0
	leave := onAccept(func() error {
		if accepted++; accepted == 3 {
			cancel()
		}
		return nil
	})
	report, err := s.reconciler(t, func(c *config) { c.Inbox = hooked{s.inbox, leave} }).Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	assert.LessOrEqual(t, len(report.Recovered), 3)
	rest := s.reconcile(t, nil) // at once: the claim has been given back
	assert.Equal(t, keys, append(report.Recovered, rest.Recovered...))
	_, err = s.reconciler(t, nil).Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	s.finish(t, keys...)
}

// priorities is a limiter that counts requests by their priority.
type priorities map[api.Priority]int

func (p priorities) Wait(ctx context.Context) error {
	p[api.PriorityOf(ctx)]++
	return nil
}

// To look for what was missed is less urgent than what is known to be missed.
func TestReconcilerHasItsPriority(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t)
	keys := s.happen(t, 3)
	asked := priorities{}
	limited := func(c *config) { c.Events = s.client(dispensary.WithLimiter(asked)).Events }
	s.reconcile(t, limited)
	assert.Equal(t, priorities{api.PriorityReconcile: pagesOfARun, api.PriorityEvent: 3}, asked)
	s.finish(t, keys...)
}
