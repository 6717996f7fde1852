package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// readOnce checks that no event was read successfully twice.
func (s *fixture) readOnce(t *testing.T) {
	t.Helper()
	read := map[string]int{}
	for _, r := range s.platform.Journal.Requests("events.get") {
		if r.Status == http.StatusOK {
			read[r.Path]++
		}
	}
	for path, n := range read {
		assert.Equal(t, 1, n, path)
	}
}

// A crashed process keeps its claim and has not saved its last events. The next process must
// wait until the claim expires, and must not read recovered events again.
func TestRunResumesAfterCrash(t *testing.T) {
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

		s.fails(t, engine.ErrCheckpointHeld, nil)
		time.Sleep(leaseTTL)
		report := s.reconcile(t, func(c *config) { c.Overlap = time.Second })
		assert.Equal(t, keys[250:], report.Recovered)
		listed := 0
		for _, group := range report.Groups {
			listed += group.Listed
		}
		assert.LessOrEqual(t, listed, 170, "the checkpoint was saved during the run")
		assert.Equal(t, 100, report.Reads, "a read but unaccepted event is read again")
		s.finish(t, keys...)
	})
}

// A run that ends early, or has several failures at once, must resume without losing an event.
func TestFailedRunResumes(t *testing.T) {
	t.Parallel()
	failing := func(operation string, skip, times int) model.Fault {
		return model.Fault{Effect: model.EffectErrorStatus, Status: 500, Operation: operation, Skip: skip, Times: times}
	}
	limited := func(operation string, skip int) model.Fault {
		return model.Fault{Effect: model.EffectTooManyRequests, Operation: operation, Skip: skip, Times: 1}
	}
	for name, c := range map[string]struct {
		faults       []model.Fault
		err          error
		first, reads int // recovered events and reads of the first run
	}{
		"rate limited":              {[]model.Fault{limited("events.get", 7)}, api.ErrRateLimited, 7, 8},
		"server error":              {[]model.Fault{failing("events.get", 7, 3)}, api.ErrServer, 117, 120},
		"server error at the start": {[]model.Fault{failing("events.get", 0, 3)}, api.ErrServer, 0, 3},
		"token ends":                {[]model.Fault{{Effect: model.EffectTokenExpired, Operation: "events.get", Skip: 7, Times: 1}}, api.ErrUnauthorized, 7, 8},
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
			assert.Len(t, s.platform.Journal.Requests("events.get"), c.reads)
			assert.Len(t, report.Recovered, c.first)
			rest := s.reconcile(t, nil)
			assert.ElementsMatch(t, keys, append(report.Recovered, rest.Recovered...))
			assert.True(t, slices.IsSortedFunc(rest.Recovered, func(a, b webhook.Key) int { return slices.Index(keys, a) - slices.Index(keys, b) }), "rest must be in order")
			s.readOnce(t)
			s.finish(t, keys...)
		})
	}
}

// orders places n orders, two hours apart, more than any overlap in these tests.
func (s *fixture) orders(t *testing.T, n int) (keys []webhook.Key) {
	t.Helper()
	for range n {
		_, e, err := s.platform.Orders.Place(s.platform.Patients.All()[0].ID, model.OrderCreate{})
		require.NoError(t, err)
		keys = append(keys, s.keys(e)...)
		s.clock.Advance(2 * time.Hour)
	}
	return keys
}

// An event without a readable date must not be lost.
func TestUndatedEventIsRetried(t *testing.T) {
	t.Parallel()
	for _, date := range []any{nil, "soon"} {
		s := newLossyFixture(t)
		keys := s.orders(t, 5)
		s.platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 500, Operation: "events.get", Times: 1})
		report, err := s.reconciler(t, s.rewritten(func(_ *http.Request, body map[string]any) {
			for _, e := range items(body, "events") {
				if e["id"] == keys[0].EventID {
					e["created_at"] = date
				}
			}
		})).Run(t.Context())
		require.ErrorIs(t, err, api.ErrServer)
		assert.Equal(t, keys[1:], report.Recovered)
		assert.Equal(t, keys[:1], s.reconcile(t, nil).Recovered)
		s.finish(t, keys...)
	}
}

// An event that only the delivery log has must not be lost.
func TestLoggedEventIsRetried(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.broken.Store(true)
	keys := s.orders(t, 4)
	s.clock.Advance(24 * time.Hour) // after the last attempt
	read := func(c *config) {
		c.Groups = []events.Group{events.GroupClinicKeys}
		c.Events = s.rewriting(func(_ *http.Request, body map[string]any) {
			deleteFromLog(body, "data")
		})
	}
	s.platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 500, Operation: "events.get", Times: 1})
	report, _ := s.fails(t, api.ErrServer, read)
	assert.Equal(t, keys[1:], report.Recovered)
	assert.Equal(t, keys[:1], s.reconcile(t, read).Recovered)
	assert.Len(t, s.reconcile(t, read).FailedDeliveries, 1, "only the latest delivery is new")
	s.finish(t, keys...)
}

func TestRunHonorsContext(t *testing.T) {
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
	rest := s.reconcile(t, nil) // at once, because the claim was released
	assert.Equal(t, keys, append(report.Recovered, rest.Recovered...))
	_, err = s.reconciler(t, nil).Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	s.finish(t, keys...)
}

// priorities is a limiter that counts requests by their priority.
type priorities map[api.Priority]int

func (p priorities) Wait(ctx context.Context) error {
	p[apikit.PriorityOf(ctx)]++
	return nil
}

// The search for missed events must be less urgent than the read of a missed event.
func TestRunSetsPriorities(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t)
	keys := s.happen(t, 3)
	asked := priorities{}
	limited := func(c *config) { c.Events = s.client(dispensary.WithLimiter(asked)).Events }
	s.reconcile(t, limited)
	assert.Equal(t, priorities{api.PriorityReconcile: pagesOfARun, api.PriorityEvent: 3}, asked)
	s.finish(t, keys...)
}

// panicking returns an inbox that panics in one method.
func panicking(inbox reconcile.Inbox, in string) reconcile.Inbox {
	return hooked{inbox, func(_ context.Context, method string, _ webhook.Delivery) error {
		if method == in {
			panic(in)
		}
		return nil
	}}
}

// A panic in your code must not end the process.
func TestRunSurvivesPanics(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"Accept", "Missing", "ClaimCheckpoint", "SaveCheckpoint", "ReleaseCheckpoint", "Integrations", "Logger"} {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			s := newLossyFixture(t)
			s.orders(t, 1)
			_, err := s.reconciler(t, func(c *config) {
				c.Inbox = panicking(s.inbox, in)
				switch in {
				case "Integrations":
					c.Integrations = func(context.Context) ([]string, error) { panic(in) }
				case "Logger":
					c.Logger = slog.New(panickingLog{slog.NewTextHandler(io.Discard, nil)})
				}
			}).Run(t.Context())
			if in == "ReleaseCheckpoint" || in == "Logger" {
				require.NoError(t, err, "the claim expires, and log lines are lost")
				return
			}
			require.ErrorIs(t, err, safecall.ErrPanic)
		})
	}
}

// A panic must not end the process while the claim is extended, either.
func TestRunSurvivesPanicOfLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		_, err := s.reconciler(t, func(c *config) {
			c.Inbox = panicking(s.inbox, "SaveCheckpoint")
			c.Integrations = func(ctx context.Context) ([]string, error) {
				<-ctx.Done() // until the claim cannot be extended
				return nil, ctx.Err()
			}
		}).Run(t.Context())
		require.ErrorIs(t, err, engine.ErrCheckpointHeld)
		require.ErrorIs(t, err, safecall.ErrPanic)
		require.NoError(t, s.inbox.Close(t.Context()))
	})
}

type panickingLog struct{ slog.Handler }

func (panickingLog) Handle(context.Context, slog.Record) error { panic("no disk") }

// unreadable makes the platform respond with a status to every read of some events.
func (s *fixture) unreadable(status int, bad ...webhook.Key) func(*config) {
	base := s.platform.HTTPClient().Transport
	through := roundTrip(func(r *http.Request) (*http.Response, error) {
		if slices.ContainsFunc(bad, func(k webhook.Key) bool { return k.EventID == path.Base(r.URL.Path) }) {
			header := http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"req_1"}}
			return &http.Response{StatusCode: status, Request: r, Header: header, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		}
		return base.RoundTrip(r)
	})
	return func(c *config) { c.Events = s.client(dispensary.WithTransport(through)).Events }
}

// Events that are listed but cannot be read must not block others, regardless of their
// position and number.
func TestUnreadableEventsBlockNoOther(t *testing.T) {
	t.Parallel()
	for _, status := range []int{404, 500} {
		for _, where := range [][2]int{{0, 3}, {2, 5}, {0, 11}, {3, 12}} {
			t.Run(fmt.Sprint(status, where), func(t *testing.T) {
				t.Parallel()
				s := newLossyFixture(t)
				keys := s.happen(t, 12)
				bad := keys[where[0]:where[1]]
				var recovered []webhook.Key
				for range 2 + 2*len(bad)/3 { // enough runs to read each event twice, with three failures per run
					report, _ := s.reconciler(t, s.unreadable(status, bad...)).Run(t.Context())
					recovered = append(recovered, report.Recovered...)
					s.clock.Advance(time.Minute)
				}
				assert.Len(t, recovered, len(keys)-len(bad))
				s.clock.Advance(20 * 24 * time.Hour)
				report := s.reconcile(t, s.unreadable(status, bad...))
				assert.Len(t, report.Gaps, 3, "a run without a success retries three events")
				assert.Equal(t, len(bad), report.Retries)
				assert.ElementsMatch(t, bad, s.reconcile(t, nil).Recovered, "the platform returns the events again")
				assert.Zero(t, s.reconcile(t, nil).Retries)
				s.finish(t, keys...)
			})
		}
	}
}

// An unreadable event must be retried while the platform keeps it, with one read per run, and
// then be reported as lost.
func TestUnreadableEventIsLostWithRetention(t *testing.T) {
	t.Parallel()
	for status, days := range map[int]int{404: 30, 403: 31, 500: 31} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := newLossyFixture(t)
			bad := s.happen(t, 1)
			unreadable := s.unreadable(status, bad...)
			_, _ = s.reconciler(t, unreadable).Run(t.Context())
			for day := 1; day <= 33; day++ {
				s.clock.Advance(24 * time.Hour)
				report := s.reconcile(t, unreadable)
				switch {
				case day <= days-1:
					require.Len(t, report.Gaps, 1, "day %d", day)
					assert.Equal(t, 1, report.Reads, "day %d", day)
					require.Error(t, report.Gaps[0].Err, "day %d", day)
				case day == days:
					require.Len(t, report.Gaps, 1, "day %d", day)
					require.NoError(t, report.Gaps[0].Err, "day %d", day)
					assert.Equal(t, bad[0].EventID, report.Gaps[0].EventID)
				default:
					assert.Empty(t, report.Gaps, "day %d", day)
				}
			}
		})
	}
}

// A webhook must end the retries of its event.
func TestRetryEndsWithWebhook(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t)
	keys := s.happen(t, 3)
	_, err := s.reconciler(t, s.unreadable(500, keys[1])).Run(t.Context())
	require.ErrorIs(t, err, api.ErrServer)
	s.sendLate(t, keys[1].EventID)
	report := s.reconcile(t, s.unreadable(500, keys[1]))
	assert.Zero(t, report.Reads)
	assert.Empty(t, report.Gaps)
	s.finish(t, keys...)
}

// If the checkpoint has no room for more retries, their group must stay before them. No event
// may be lost, and the checkpoint must stay small.
func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t)
	keys := s.orders(t, 300)
	bad := keys[1:299]
	var recovered []webhook.Key
	for range 3 {
		report, err := s.reconciler(t, s.unreadable(500, bad...)).Run(t.Context())
		require.ErrorIs(t, err, api.ErrServer)
		recovered = append(recovered, report.Recovered...)
	}
	assert.Equal(t, []webhook.Key{keys[0], keys[299]}, recovered)
	name := "us/sandbox/" + s.clinic
	state, err := s.inbox.ClaimCheckpoint(t.Context(), name, "test", time.Minute)
	require.NoError(t, err)
	assert.Less(t, len(state), 48<<10)
	assert.True(t, json.Valid(state))
	require.NoError(t, s.inbox.ReleaseCheckpoint(context.Background(), name, "test"))
	assert.ElementsMatch(t, bad, s.reconcile(t, nil).Recovered)
	s.finish(t, keys...)
}

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

// rejecting returns an inbox that rejects some keys with an error, or panics on them.
func (s *fixture) rejecting(err error, keys ...webhook.Key) func(*config) {
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
				report, err := s.reconciler(t, s.rejecting(c.err, bad...)).Run(t.Context())
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
			report, err := s.fails(t, webhook.ErrInbox, s.rejecting(c.err, keys[2:]...))
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
	report, _ := s.fails(t, webhook.ErrUnstorable, s.rejecting(webhook.ErrUnstorable, keys[0]))
	assert.Equal(t, keys[1:], report.Recovered)
	s.finish(t, keys[1:]...)
}
