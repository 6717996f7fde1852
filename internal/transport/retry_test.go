package transport

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

func logTo(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func create(ctx context.Context, c *Client, options ...api.RequestOption) error {
	_, err := One[thing](ctx, c, Call{Operation: operation.PatientCreate, Body: thing{ID: "body-canary"}, Options: options})
	return err
}

func get(ctx context.Context, c *Client) error {
	_, err := One[thing](ctx, c, Call{Operation: operation.PatientGet, Path: []string{"p1"}})
	return err
}

var errDial = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no route")}

// The test covers the retry rules and the outcome of each failure.
func TestRetryRulesAndOutcomes(t *testing.T) {
	t.Parallel()
	response := func(status int, headers ...string) func() (*http.Response, error) {
		return responding(status, `{"error":"body-canary"}`, headers...)
	}
	gateway := func(status int, headers ...string) func() (*http.Response, error) {
		return responding(status, "<html>body-canary", headers...)
	}
	foreign := func(status int, headers ...string) func() (*http.Response, error) {
		return responding(status, `{"error":"body-canary"}`, append(headers, "X-Request-Id", "")...)
	}
	fail := func(err error) func() (*http.Response, error) {
		return func() (*http.Response, error) { return nil, err }
	}
	tests := map[string]struct {
		call     func(context.Context, *Client) error
		meets    func() (*http.Response, error)
		attempts int
		is       []error
	}{
		"read, server error":               {get, response(500), 4, []error{api.ErrServer}},
		"read, not implemented":            {get, response(501), 1, []error{api.ErrServer}},
		"read, rate limit":                 {get, response(429), 4, []error{api.ErrRateLimited}},
		"read, connection lost":            {get, fail(io.ErrUnexpectedEOF), 4, []error{io.ErrUnexpectedEOF}},
		"read, not found":                  {get, response(404), 1, []error{api.ErrNotFound}},
		"read, forbidden":                  {get, response(403), 1, []error{api.ErrForbidden}},
		"read, gateway unavailable":        {get, gateway(503, "Retry-After", "2"), 4, []error{api.ErrServer}},
		"read, gateway's not found":        {get, gateway(404), 1, []error{api.ErrUntrusted}},
		"write, bad gateway":               {createOnce, response(502), 1, []error{api.ErrServer, api.ErrMaybeApplied}},
		"write, unavailable":               {createOnce, response(503), 1, []error{api.ErrServer, api.ErrMaybeApplied}},
		"write, empty unavailable":         {createOnce, responding(503, "", "Retry-After", "2"), 1, []error{api.ErrServer, api.ErrMaybeApplied}},
		"write, gateway timeout":           {createOnce, response(504), 1, []error{api.ErrServer, api.ErrMaybeApplied}},
		"write, gateway timeout until":     {createOnce, response(504, "Retry-After", "2"), 1, []error{api.ErrServer, api.ErrMaybeApplied}},
		"write, conflict":                  {createOnce, response(409), 1, []error{api.ErrValidation, api.ErrNotApplied}},
		"write, foreign conflict":          {createOnce, foreign(409), 1, []error{api.ErrMaybeApplied, api.ErrUntrusted}},
		"write, foreign too large":         {createOnce, foreign(413), 1, []error{api.ErrMaybeApplied, api.ErrUntrusted}},
		"write, foreign invalid":           {createOnce, foreign(422), 1, []error{api.ErrMaybeApplied, api.ErrUntrusted}},
		"write, gateway's forbidden":       {createOnce, gateway(403), 1, []error{api.ErrMaybeApplied, api.ErrUntrusted}},
		"write, server error":              {createOnce, response(500), 1, []error{api.ErrServer, api.ErrMaybeApplied}},
		"write, unavailable until":         {createOnce, response(503, "Retry-After", "2"), 1, []error{api.ErrServer, api.ErrMaybeApplied}},
		"write, foreign unavailable":       {createOnce, foreign(503, "Retry-After", "2"), 1, []error{api.ErrServer, api.ErrMaybeApplied, api.ErrUntrusted}},
		"read, foreign unavailable":        {get, foreign(503), 4, []error{api.ErrServer, api.ErrUntrusted}},
		"write, gateway unavailable":       {createOnce, gateway(503, "Retry-After", "2"), 1, []error{api.ErrServer, api.ErrMaybeApplied}},
		"write, broken unavailable":        {createOnce, truncated(503, "Retry-After", "2"), 1, []error{api.ErrServer, api.ErrMaybeApplied, io.ErrUnexpectedEOF}},
		"write, see other":                 {createOnce, response(303, "Location", "https://platform.example/p1"), 1, []error{api.ErrMaybeApplied}},
		"write, gateway's rate limit":      {createOnce, gateway(429, "Retry-After", "2"), 1, []error{api.ErrRateLimited, api.ErrMaybeApplied, api.ErrUntrusted}},
		"write, foreign rate limit":        {createOnce, foreign(429, "Retry-After", "2"), 1, []error{api.ErrRateLimited, api.ErrMaybeApplied, api.ErrUntrusted}},
		"read, foreign rate limit":         {get, foreign(429, "Retry-After", "2"), 4, []error{api.ErrRateLimited}},
		"write, request timeout":           {createOnce, response(408), 1, []error{api.ErrMaybeApplied}},
		"write, too large":                 {createOnce, response(413), 1, []error{api.ErrNotApplied}},
		"write, foreign forbidden":         {createOnce, foreign(403), 1, []error{api.ErrMaybeApplied, api.ErrUntrusted}},
		"write, foreign redirect":          {createOnce, foreign(307, "Location", "https://elsewhere.example/"), 1, []error{api.ErrMaybeApplied, api.ErrUntrusted}},
		"write, foreign success":           {createOnce, foreign(200), 1, []error{api.ErrBadResponse, api.ErrMaybeApplied, api.ErrUntrusted}},
		"write, foreign empty object":      {createOnce, responding(201, `{"patient":{}}`, "X-Request-Id", ""), 1, []error{api.ErrBadResponse, api.ErrMaybeApplied, api.ErrUntrusted}},
		"write, empty success":             {createOnce, responding(201, "", "X-Request-Id", ""), 1, []error{api.ErrBadResponse, api.ErrMaybeApplied, api.ErrUntrusted}},
		"read, foreign not found":          {get, foreign(404), 1, []error{api.ErrUntrusted}},
		"read, not found breaks off":       {get, truncated(404), 4, []error{api.ErrUntrusted, io.ErrUnexpectedEOF}},
		"write, rate limit":                {createOnce, response(429), 1, []error{api.ErrRateLimited, api.ErrNotApplied}},
		"write, rate limit until":          {createOnce, response(429, "Retry-After", "2"), 4, []error{api.ErrRateLimited, api.ErrNotApplied}},
		"write, rate limit until fraction": {createOnce, response(429, "Retry-After", "1.25"), 4, []error{api.ErrRateLimited, api.ErrNotApplied}},
		"write, rate limit until soon":     {createOnce, response(429, "Retry-After", "soon"), 1, []error{api.ErrRateLimited, api.ErrNotApplied}},
		"write, rate limit until infinity": {createOnce, response(429, "Retry-After", "Inf"), 1, []error{api.ErrRateLimited, api.ErrNotApplied}},
		"write, connection lost":           {createOnce, fail(io.ErrUnexpectedEOF), 1, []error{io.ErrUnexpectedEOF, api.ErrMaybeApplied}},
		"write, attempt timed out":         {createOnce, fail(context.DeadlineExceeded), 1, []error{context.DeadlineExceeded, api.ErrMaybeApplied}},
		"write, connection never made":     {createOnce, fail(errDial), 4, []error{api.ErrNotSent}},
		"write, invalid":                   {createOnce, response(422), 1, []error{api.ErrValidation, api.ErrNotApplied}},
		"write, redirected":                {createOnce, response(307, "Location", "https://elsewhere.example/"), 1, []error{api.ErrNotApplied}},
		"write, response breaks off":       {createOnce, truncated(201), 1, []error{api.ErrMaybeApplied, io.ErrUnexpectedEOF}},
		"read, response breaks off":        {get, truncated(200), 4, []error{io.ErrUnexpectedEOF}},
		"read, response too large":         {get, func() (*http.Response, error) { return new(endless).reply(200) }, 1, []error{errTooLarge}},
		"write, response is not JSON":      {createOnce, responding(200, "<html>body-canary"), 1, []error{api.ErrBadResponse, api.ErrMaybeApplied}},
		"write, response lacks object":     {createOnce, responding(200, `{"patients":{}}`), 1, []error{api.ErrBadResponse, api.ErrMaybeApplied}},
		"read, caller's own error passes":  {get, fail(errOwn), 4, []error{errOwn}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				transport := &responder{respond: func(int, *http.Request) (*http.Response, error) { return test.meets() }}
				client := newTestClient(t, transport)
				err := test.call(t.Context(), client)
				assert.EqualValues(t, test.attempts, transport.calls.Load())
				failure := failureOf(t, err)
				assert.Equal(t, test.attempts, failure.Attempts)
				for _, want := range test.is {
					assert.ErrorIs(t, err, want)
				}
				assertOutcome(t, err, failure)
				assert.Equal(t, failure.Untrusted, errors.Is(err, api.ErrUntrusted))
				for _, certain := range []error{api.ErrUnauthorized, api.ErrForbidden, api.ErrNotFound, api.ErrValidation, api.ErrNotApplied} {
					assert.False(t, failure.Untrusted && errors.Is(err, certain), "%v", certain)
				}
				for _, text := range texts(err) {
					assert.NotContains(t, text, "canary")
					assert.NotContains(t, text, "platform.example")
				}
			})
		})
	}
}

var errOwn = errors.New("a transport's own error with a canary in it")

func createOnce(ctx context.Context, c *Client) error { return create(ctx, c) }

// truncated responds with a body that ends before its Content-Length.
func truncated(status int, headers ...string) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		r := reply(status, `{"patient":{"id":"p`, headers...)
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"patient":`), failingReader{}))
		return r, nil
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// assertOutcome checks that a failed write matches exactly one outcome, and a sent read none.
func assertOutcome(t *testing.T, err error, failure *api.Error) {
	t.Helper()
	var matched int
	for _, outcome := range []error{api.ErrNotSent, api.ErrNotApplied, api.ErrMaybeApplied} {
		if errors.Is(err, outcome) {
			matched++
		}
	}
	want := 1
	if failure.Method == http.MethodGet {
		want = 0
	}
	assert.Equal(t, want, matched, "outcomes matched")
}

func TestRetryAfterWaitsUpToMaximum(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		retryAfter func() string
		calls      int32
		atLeast    time.Duration
		atMost     time.Duration
	}{
		"seconds":             {func() string { return "7" }, 2, 7 * time.Second, 8 * time.Second},
		"fraction":            {func() string { return "6.001" }, 2, 7 * time.Second, 8 * time.Second},
		"at the maximum":      {func() string { return "60" }, 2, time.Minute, 61 * time.Second},
		"beyond maximum":      {func() string { return "61" }, 1, 0, 0},
		"far beyond maximum":  {func() string { return "99999999999999" }, 1, 0, 0},
		"beyond 64 bits":      {func() string { return "99999999999999999999" }, 1, 0, 0},
		"beyond floats":       {func() string { return strings.Repeat("9", 400) }, 1, 0, 0},
		"date":                {func() string { return time.Now().Add(9 * time.Second).UTC().Format(http.TimeFormat) }, 2, 8 * time.Second, 10 * time.Second},
		"date beyond maximum": {func() string { return time.Now().Add(time.Hour).UTC().Format(http.TimeFormat) }, 1, 0, 0},
		"date in the past":    {func() string { return time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat) }, 2, 0, time.Second},
		"negative":            {func() string { return "-5" }, 2, 0, time.Second},
		"not readable":        {func() string { return "soon" }, 2, 0, time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				transport := turns(responding(429, "", "Retry-After", test.retryAfter()), found)
				start := time.Now()
				err := get(t.Context(), newTestClient(t, transport))
				took := time.Since(start)
				assert.Equal(t, test.calls, transport.calls.Load())
				assert.GreaterOrEqual(t, took, test.atLeast)
				assert.LessOrEqual(t, took, test.atMost)
				if test.calls == 1 {
					assert.ErrorIs(t, err, api.ErrRateLimited)
					failure := failureOf(t, err)
					assert.Greater(t, failure.RetryAfter, time.Minute)
				} else {
					assert.NoError(t, err)
				}
			})
		})
	}
}

func TestRetryAfterReadsOnlyNumbersAndDates(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{"0": 0, "7": 7 * time.Second, "0.493": time.Second, "299.997": 5 * time.Minute, ".5": time.Second, "5.": 5 * time.Second} {
		wait, ok := retryAfter(http.Header{"Retry-After": {value}})
		assert.True(t, ok, value)
		assert.Equal(t, want, wait, value)
	}
	for _, value := range []string{"", ".", "1.2.3", "-5", "+5", "1e3", "0x10", "1_000", "NaN", "Inf", "Infinity", "4,25", "5s", "soon"} {
		wait, ok := retryAfter(http.Header{"Retry-After": {value}})
		assert.False(t, ok, value)
		assert.Zero(t, wait, value)
	}
}

func TestRetryAfterDateUsesServerClock(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{"platform behind": -20 * time.Minute, "platform ahead": 20 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				now := time.Now().Add(skew).UTC()
				client := newTestClient(t, turns(responding(429, "", "Date", now.Format(http.TimeFormat), "Retry-After", now.Add(9*time.Second).Format(http.TimeFormat)), found))
				start := time.Now()
				require.NoError(t, get(t.Context(), client))
				assert.GreaterOrEqual(t, time.Since(start), 9*time.Second)
				assert.LessOrEqual(t, time.Since(start), 11*time.Second)
			})
		})
	}
}

// No header makes the wait negative or longer than a day.
func FuzzRetryAfter(f *testing.F) {
	f.Add("120", "")
	f.Add("4.25", "")
	f.Add("99999999999999999999", "Wed, 25 Nov 2026 10:00:00 GMT")
	f.Add("Wed, 25 Nov 9999 10:00:00 GMT", "Mon, 01 Jan 0001 00:00:00 GMT")
	f.Fuzz(func(t *testing.T, value, date string) {
		wait, ok := retryAfter(http.Header{"Retry-After": {value}, "Date": {date}})
		assert.GreaterOrEqual(t, wait, time.Duration(0))
		assert.LessOrEqual(t, wait, maxRetryAfter)
		assert.True(t, ok || wait == 0)
	})
}

// A wait beyond the caller's deadline does not start. The error is the last response and not
// the deadline.
func TestWaitBeyondDeadlineIsSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transport := says(503, "", "Retry-After", "30")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		err := get(ctx, newTestClient(t, transport))
		assert.Zero(t, time.Since(start))
		assert.ErrorIs(t, err, api.ErrServer)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestBackoffDoublesWithinBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		transport := &responder{respond: func(int, *http.Request) (*http.Response, error) {
			at = append(at, time.Now())
			return reply(500, ""), nil
		}}
		client := newTestClient(t, transport, func(c *Config) {
			c.Retry = api.RetryPolicy{MaxAttempts: 7, MinWait: time.Second, MaxWait: 10 * time.Second}
		})
		assert.Error(t, get(t.Context(), client))
		require.Len(t, at, 7)
		for i, longest := range []time.Duration{1, 2, 4, 8, 10, 10} {
			wait := at[i+1].Sub(at[i])
			assert.GreaterOrEqual(t, wait, longest*time.Second/2)
			assert.LessOrEqual(t, wait, longest*time.Second)
		}
	})
}

func TestWithoutRetriesSendsOnce(t *testing.T) {
	t.Parallel()
	transport := says(500, "")
	call := Call{Operation: operation.PatientGet, Path: []string{"p1"}, Options: []api.RequestOption{api.WithoutRetries()}}
	_, err := One[thing](t.Context(), newTestClient(t, transport), call)
	assert.ErrorIs(t, err, api.ErrServer)
	assert.EqualValues(t, 1, transport.calls.Load())
}

func TestRetryPolicyIsValidated(t *testing.T) {
	t.Parallel()
	for _, policy := range []api.RetryPolicy{
		{MaxAttempts: -1}, {MinWait: -1}, {MaxWait: -1}, {MaxRetryAfter: -1}, {MinWait: 2, MaxWait: 1},
	} {
		_, err := withDefaults(policy)
		assert.Error(t, err, "%+v", policy)
	}
	policy, err := withDefaults(api.RetryPolicy{MinWait: time.Minute})
	require.NoError(t, err)
	assert.GreaterOrEqual(t, policy.MaxWait, policy.MinWait)
}

type limiterFunc func(context.Context) error

func (f limiterFunc) Wait(ctx context.Context) error { return f(ctx) }

func TestAttemptsDoNotShareHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var headers []http.Header
		transport := &responder{respond: func(call int, r *http.Request) (*http.Response, error) {
			headers = append(headers, r.Header)
			if call == 2 {
				return reply(401, ""), nil // one more attempt with a fresh token
			}
			return reply(500, ""), nil
		}}
		client := newTestClient(t, transport, withTokens(&rotating{}))
		require.ErrorIs(t, get(t.Context(), client), api.ErrServer)
		require.Len(t, headers, 4)
		for i, header := range headers[:len(headers)-1] {
			header.Set("X-Late", "yes")
			assert.Empty(t, headers[i+1].Get("X-Late"), "a transport may still read the header of attempt %d", i+1)
		}
	})
}
