package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// diary records the notifications of an observer and adds a value to each context.
type diary struct {
	name  string
	lines []string
	ends  []observe.AttemptResult
	calls []observe.CallResult
}

type diaryKey string

func (d *diary) observer() observe.Observer {
	note := func(ctx context.Context, format string, values ...any) {
		seen, _ := ctx.Value(diaryKey(d.name)).(string)
		d.lines = append(d.lines, fmt.Sprintf(format, values...)+" in "+seen)
	}
	return observe.Observer{
		CallStart: func(ctx context.Context, c observe.Call) context.Context {
			note(ctx, "call %s", c.Operation)
			return context.WithValue(ctx, diaryKey(d.name), "call")
		},
		AttemptStart: func(ctx context.Context, a observe.Attempt) context.Context {
			note(ctx, "attempt %d %s", a.Number, a.Retry)
			return context.WithValue(ctx, diaryKey(d.name), fmt.Sprintf("attempt %d", a.Number))
		},
		AttemptEnd: func(ctx context.Context, a observe.AttemptResult) {
			note(ctx, "ended %d %s", a.StatusCode, a.Failure)
			d.ends = append(d.ends, a)
		},
		CallEnd: func(ctx context.Context, c observe.CallResult) {
			note(ctx, "done %d %s %s", c.Attempts, c.Failure, c.Outcome)
			d.calls = append(d.calls, c)
		},
	}
}

// turns responds to the requests of a test in order. The last response repeats.
func turns(steps ...func() (*http.Response, error)) *responder {
	return &responder{respond: func(call int, _ *http.Request) (*http.Response, error) { return steps[min(call, len(steps))-1]() }}
}

// found is a response with a record.
func found() (*http.Response, error) { return reply(200, `{"patient":{"id":"p1"}}`), nil }

func responding(status int, body string, headers ...string) func() (*http.Response, error) {
	return func() (*http.Response, error) { return reply(status, body, headers...), nil }
}

// An observer receives the call, each attempt and its reason. The contexts that it returns
// reach the attempts and the requests.
func TestObserverReceivesCallAndAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d diary
		d.name = "a"
		var seen []string
		platform := turns(func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
			responding(429, "", "Retry-After", "3"), responding(503, ""), found)
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			value, _ := r.Context().Value(diaryKey("a")).(string)
			seen = append(seen, value)
			return platform.RoundTrip(r)
		})
		client := newTestClient(t, transport, func(c *Config) {
			c.Observers = []observe.Observer{d.observer()}
			c.Limiter = limiterFunc(func(context.Context) error { time.Sleep(time.Second); return nil })
		})
		require.NoError(t, get(t.Context(), client))
		assert.Equal(t, []string{
			"call patients.get in ", "attempt 1  in call", "ended 0 connection_closed in attempt 1",
			"attempt 2 network in call", "ended 429 status in attempt 2",
			"attempt 3 rate_limited in call", "ended 503 status in attempt 3",
			"attempt 4 server in call", "ended 200  in attempt 4", "done 4   in call",
		}, d.lines)
		assert.Equal(t, []string{"attempt 1", "attempt 2", "attempt 3", "attempt 4"}, seen)
		assert.Zero(t, d.ends[0].BackOff)
		assert.GreaterOrEqual(t, d.ends[2].BackOff, 3*time.Second, "the platform requested the wait")
		for _, attempt := range d.ends {
			assert.Equal(t, time.Second, attempt.LimiterWait)
		}
		assert.Equal(t, observe.Call{
			Operation: "patients.get", Method: "GET", Route: "/clinic/patients/{id}", Environment: sandbox, Host: "platform.example",
		}, d.calls[0].Call)
		assert.Equal(t, "req-1", d.calls[0].RequestID)
		assert.Greater(t, d.calls[0].Duration, 7*time.Second, "the duration includes all waits")
	})
}

// A failed call reports its failure, and every started attempt ends.
func TestObserverReceivesFailure(t *testing.T) {
	t.Parallel()
	tokens := func(err error) func(*Config) { return withTokens(failing{err}) }
	tooLarge, _ := endlessly(200)
	unsent := func(why observe.Failure) observe.CallResult {
		return observe.CallResult{Failure: why, Outcome: api.OutcomeNotSent}
	}
	for name, test := range map[string]struct {
		transport http.RoundTripper
		change    func(*Config)
		call      func(context.Context, *Client) error
		want      observe.CallResult
	}{
		"status":       {says(404, ""), nil, get, observe.CallResult{Attempts: 1, StatusCode: 404, Failure: observe.FailureStatus}},
		"refused":      {says(422, "{}"), nil, createOnce, observe.CallResult{Attempts: 1, StatusCode: 422, Failure: observe.FailureStatus, Outcome: api.OutcomeNotApplied}},
		"undecodable":  {says(201, "<html>"), nil, createOnce, observe.CallResult{Attempts: 1, StatusCode: 201, Failure: observe.FailureBadResponse, Outcome: api.OutcomeMaybeApplied}},
		"too large":    {tooLarge, nil, get, observe.CallResult{Attempts: 1, StatusCode: 200, Failure: observe.FailureTooLarge}},
		"argument":     {nil, nil, getOf(".."), unsent(observe.FailureArgument)},
		"no tokens":    {nil, withTokens(nil), get, unsent(observe.FailureNoAccessToken)},
		"reauthorize":  {nil, tokens(fmt.Errorf("x: %w", api.ErrReauthorize)), get, unsent(observe.FailureReauthorize)},
		"token late":   {nil, tokens(context.DeadlineExceeded), get, unsent(observe.FailureTimeout)},
		"limiter":      {nil, func(c *Config) { c.Limiter = limiterFunc(func(context.Context) error { return errors.New("no") }) }, get, unsent(observe.FailureLimiter)},
		"scope":        {nil, withTokens(static{scoped("catalog:read")}), createPlan, unsent(observe.FailureScope)},
		"stays 401":    {says(401, ""), withTokens(&rotating{}), get, observe.CallResult{Attempts: 2, StatusCode: 401, Failure: observe.FailureStatus}},
		"not a client": {says(200, ""), nil, get, observe.CallResult{Attempts: 1, StatusCode: 200, Failure: observe.FailureBadResponse}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d diary // of the observer after an empty one
			client := newTestClient(t, test.transport, func(c *Config) {
				c.Observers = []observe.Observer{{}, d.observer()}
				if test.change != nil {
					test.change(c)
				}
			})
			require.Error(t, test.call(t.Context(), client))
			require.Len(t, d.calls, 1)
			got := d.calls[0]
			assert.Len(t, d.ends, got.Attempts)
			got.Call, got.RequestID, got.Duration = observe.Call{}, "", 0
			assert.Equal(t, test.want, got)
		})
	}
}

// The second request after a 401 has this reason. Several observers are nested: the first one
// starts first and ends last.
func TestObserversAreNested(t *testing.T) {
	t.Parallel()
	var order []string
	observer := func(name string) observe.Observer {
		return observe.Observer{
			CallStart: func(context.Context, observe.Call) context.Context { order = append(order, name+" call"); return nil },
			AttemptStart: func(_ context.Context, a observe.Attempt) context.Context {
				order = append(order, name+" attempt "+string(a.Retry))
				return nil
			},
			AttemptEnd: func(context.Context, observe.AttemptResult) { order = append(order, name+" ended") },
			CallEnd:    func(context.Context, observe.CallResult) { order = append(order, name+" done") },
		}
	}
	client := newTestClient(t, turns(responding(401, ""), found), func(c *Config) {
		c.Tokens = &rotating{}
		c.Observers = []observe.Observer{observer("a"), observer("b")}
	})
	require.NoError(t, get(t.Context(), client))
	assert.Equal(t, []string{
		"a call", "b call", "a attempt ", "b attempt ", "b ended", "a ended",
		"a attempt unauthorized", "b attempt unauthorized", "b ended", "a ended", "b done", "a done",
	}, order)
}

// failing is a token source without tokens.
type failing struct{ err error }

func (f failing) Token(context.Context) (api.AccessToken, error) { return api.AccessToken{}, f.err }

func getOf(id string) func(context.Context, *Client) error {
	return func(ctx context.Context, c *Client) error {
		return Do(ctx, c, Call{Operation: operation.PatientGet, Path: []string{id}})
	}
}

func createPlan(ctx context.Context, c *Client) error { return Do(ctx, c, Call{Operation: stated}) }

// A call without observers has no extra cost. The test counts allocations, so it is not
// parallel.
func TestNilObservationAllocatesNothing(t *testing.T) {
	var o *observation
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		o.limited(time.Time{})
		o.attemptStart(t.Context(), 1, 0)
		o.attemptEnd(nil, 0, nil)
		o.recordFailure("", "")
		o.callEnd(nil, 0)
	}))
}
