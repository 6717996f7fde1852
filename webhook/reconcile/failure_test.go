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
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/priority"
	"github.com/dispensary-go/dispensary/internal/safecall"
	"github.com/dispensary-go/dispensary/webhook"
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

		s.fails(t, reconcile.ErrCheckpointHeld, nil)
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
	p[priority.Of(ctx)]++
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
		require.ErrorIs(t, err, reconcile.ErrCheckpointHeld)
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
