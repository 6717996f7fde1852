package health_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/health"
)

// found returns a check with a constant result.
func found(status health.Status, err error) health.Check {
	return func(context.Context) health.Result { return health.Result{Status: status, Err: err} }
}

func newHandler(t *testing.T, c health.Config) *health.Handler {
	t.Helper()
	handler, err := health.New(c)
	require.NoError(t, err)
	return handler
}

// response is the response of the handler.
type response struct {
	Status health.Status
	Age    *int `json:"age_seconds"`
	Checks map[string]struct {
		Status  health.Status
		Details map[string]any
	}
}

func get(t *testing.T, handler http.Handler, target string) (int, response) {
	t.Helper()
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))
	var a response
	require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &a), recorder.Body.String())
	return recorder.Code, a
}

func TestReadyReportsChecks(t *testing.T) {
	t.Parallel()
	ok, degraded, failing := found(health.StatusOK, nil), found(health.StatusDegraded, errors.New("canary")), found(health.StatusFailing, errors.New("canary"))
	for name, c := range map[string]struct {
		checks       map[string]health.Check
		status       health.Status
		code, strict int
	}{
		"all well":     {map[string]health.Check{"a": ok, "b": ok}, health.StatusOK, 200, 200},
		"one degraded": {map[string]health.Check{"a": ok, "b": degraded}, health.StatusDegraded, 200, 503},
		"one failing":  {map[string]health.Check{"a": ok, "b": failing}, health.StatusFailing, 503, 503},
		"both":         {map[string]health.Check{"a": degraded, "b": failing, "c": degraded}, health.StatusFailing, 503, 503},
		"no status":    {map[string]health.Check{"a": found("", nil)}, health.StatusFailing, 503, 503},
		"panic":        {map[string]health.Check{"a": func(context.Context) health.Result { panic("canary") }}, health.StatusFailing, 503, 503},
		"goexit":       {map[string]health.Check{"a": func(context.Context) health.Result { runtime.Goexit(); return health.Result{} }}, health.StatusFailing, 503, 503},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handler := newHandler(t, health.Config{Checks: c.checks})
			handler.Check(t.Context())
			code, a := get(t, handler, "/ops/readyz")
			assert.Equal(t, c.code, code)
			assert.Equal(t, c.status, a.Status)
			assert.Len(t, a.Checks, len(c.checks))
			code, _ = get(t, handler, "/readyz?strict")
			assert.Equal(t, c.strict, code)
			code, a = get(t, handler, "/healthz?strict")
			assert.Equal(t, 200, code, "a restart would not help")
			assert.Equal(t, response{Status: health.StatusOK}, a)
		})
	}
}

func TestResponseContainsOnlyDetails(t *testing.T) {
	t.Parallel()
	handler := newHandler(t, health.Config{Checks: map[string]health.Check{"a": func(context.Context) health.Result {
		return health.Result{Status: health.StatusFailing, Err: errors.New("canary"), Details: map[string]any{"waiting": 3}}
	}}})
	handler.Check(t.Context())
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
	assert.JSONEq(t, `{"status":"failing","age_seconds":0,"checks":{"a":{"status":"failing","details":{"waiting":3}}}}`, recorder.Body.String())
	assert.Equal(t, http.Header{
		"Content-Type": {"application/json"}, "Cache-Control": {"no-store"},
		"Cross-Origin-Resource-Policy": {"same-origin"}, "X-Content-Type-Options": {"nosniff"},
	}, recorder.Header())
	assert.Equal(t, "health.Handler", fmt.Sprintf("%+v", handler))
}

func TestHandlerRejectsOtherRequests(t *testing.T) {
	t.Parallel()
	handler := newHandler(t, health.Config{Checks: map[string]health.Check{"a": found(health.StatusOK, nil)}})
	handler.Check(t.Context())
	for target, want := range map[string]int{"GET /": 404, "GET /status": 404, "POST /readyz": 405, "HEAD /readyz": 200} {
		var method, path string
		_, err := fmt.Sscan(target, &method, &path)
		require.NoError(t, err)
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		assert.Equal(t, want, recorder.Code, target)
	}
}

// A check that hangs makes the program not ready and is not started again.
func TestHungCheckFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var begun atomic.Int32
		release := make(chan struct{})
		hang := func(context.Context) health.Result {
			begun.Add(1)
			<-release
			return health.Result{Status: health.StatusOK}
		}
		handler := newHandler(t, health.Config{Checks: map[string]health.Check{"a": found(health.StatusOK, nil), "b": hang, "c": hang}})
		run(t, handler)
		for range 3 {
			time.Sleep(5 * time.Second)
			code, a := get(t, handler, "/readyz")
			assert.Equal(t, 503, code)
			assert.Equal(t, health.StatusOK, a.Checks["a"].Status)
			assert.Equal(t, health.StatusFailing, a.Checks["b"].Status)
			assert.Equal(t, health.StatusFailing, a.Checks["c"].Status)
		}
		assert.EqualValues(t, 2, begun.Load())
		close(release)
		time.Sleep(5 * time.Second)
		code, _ := get(t, handler, "/readyz")
		assert.Equal(t, 200, code)
	})
}

// run runs a handler until the end of the test.
func run(t *testing.T, handler *health.Handler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		handler.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

// Requests return the last results and run no check, however many requests there are.
func TestRequestsRunNoCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var begun atomic.Int32
		handler := newHandler(t, health.Config{Checks: map[string]health.Check{"a": func(context.Context) health.Result {
			return health.Result{Status: health.StatusOK, Details: map[string]any{"run": begun.Add(1)}}
		}}})
		code, a := get(t, handler, "/readyz")
		assert.Equal(t, 503, code, "no check has run yet")
		assert.Equal(t, response{Status: health.StatusFailing, Checks: a.Checks}, a)
		assert.Equal(t, health.StatusFailing, a.Checks["a"].Status)
		assert.Zero(t, begun.Load())
		run(t, handler)
		synctest.Wait()
		for n := range 3 {
			for range 100 {
				code, a = get(t, handler, "/readyz")
				assert.Equal(t, 200, code)
			}
			assert.EqualValues(t, n+1, a.Checks["a"].Details["run"])
			assert.Zero(t, *a.Age)
			time.Sleep(4 * time.Second)
			_, a = get(t, handler, "/readyz")
			assert.Equal(t, 4, *a.Age)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		assert.EqualValues(t, 4, begun.Load())
	})
}

func TestOldResultsFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handler := newHandler(t, health.Config{Checks: map[string]health.Check{"a": found(health.StatusOK, nil)}})
		stop := run(t, handler)
		synctest.Wait()
		stop()
		time.Sleep(3*5*time.Second + 2*time.Second)
		code, _ := get(t, handler, "/readyz")
		assert.Equal(t, 200, code)
		time.Sleep(time.Second)
		code, a := get(t, handler, "/readyz")
		assert.Equal(t, 503, code)
		assert.Equal(t, health.StatusFailing, a.Status)
		assert.Equal(t, 18, *a.Age)
		handler.Check(t.Context())
		code, _ = get(t, handler, "/readyz")
		assert.Equal(t, 200, code)
	})
}

// After Run has returned, a program may close the resources of its checks.
func TestRunWaitsForChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Bool
		handler := newHandler(t, health.Config{Checks: map[string]health.Check{"a": func(ctx context.Context) health.Result {
			running.Store(true)
			<-ctx.Done()
			time.Sleep(100 * time.Millisecond)
			running.Store(false)
			return health.Result{Status: health.StatusFailing}
		}}})
		stop := run(t, handler)
		synctest.Wait()
		stop()
		assert.False(t, running.Load())
		_, a := get(t, handler, "/readyz")
		assert.Nil(t, a.Age, "a canceled check has no result")
	})
}

func TestDrainFailsAtOnce(t *testing.T) {
	t.Parallel()
	handler := newHandler(t, health.Config{Checks: map[string]health.Check{"a": found(health.StatusOK, nil)}})
	handler.Check(t.Context())
	handler.Drain()
	code, a := get(t, handler, "/readyz")
	assert.Equal(t, 503, code)
	assert.Equal(t, health.StatusFailing, a.Checks["shutdown"].Status)
	assert.Equal(t, health.StatusOK, a.Checks["a"].Status)
	code, _ = get(t, handler, "/healthz")
	assert.Equal(t, 200, code)
}

func TestUnencodableDetailsAreOmitted(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	handler := newHandler(t, health.Config{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Checks: map[string]health.Check{"load": func(context.Context) health.Result {
			return health.Result{Status: health.StatusDegraded, Details: map[string]any{"ratio": math.NaN()}}
		}},
	})
	for range 2 {
		handler.Check(t.Context())
	}
	_, a := get(t, handler, "/readyz")
	assert.Equal(t, health.StatusDegraded, a.Status)
	assert.Empty(t, a.Checks["load"].Details)
	assert.Equal(t, 1, strings.Count(log.String(), "cannot be encoded as JSON\" check=load"))
}

func TestPanicIsLogged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		check health.Check
		want  string
	}{
		"runtime error": {func(context.Context) health.Result {
			var statuses []health.Status
			return health.Result{Status: statuses[len(statuses)]}
		}, "index out of range"},
		"value":  {func(context.Context) health.Result { panic("canary") }, "with a value of type string"},
		"error":  {func(context.Context) health.Result { panic(errors.New("canary")) }, "with a value of type *errors.errorString"},
		"goexit": {func(context.Context) health.Result { runtime.Goexit(); return health.Result{} }, "ended by runtime.Goexit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			check := found(health.StatusFailing, errors.New("why"))
			handler := newHandler(t, health.Config{
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Checks: map[string]health.Check{"inbox": func(ctx context.Context) health.Result { return check(ctx) }},
			})
			handler.Check(t.Context())
			check = c.check
			for range 2 {
				handler.Check(t.Context())
			}
			assert.Equal(t, 1, strings.Count(log.String(), c.want), log.String())
			assert.Equal(t, 1, strings.Count(log.String(), "level=ERROR"))
			assert.Contains(t, log.String(), "check=inbox")
			assert.NotContains(t, log.String(), "canary")
		})
	}
}

func TestChangesAreLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	status := health.StatusOK
	handler := newHandler(t, health.Config{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Checks: map[string]health.Check{"a": func(context.Context) health.Result { return health.Result{Status: status, Err: errors.New("why")} }},
	})
	for _, now := range []health.Status{health.StatusOK, health.StatusFailing, health.StatusFailing, health.StatusOK, health.StatusOK} {
		status = now
		handler.Check(t.Context())
	}
	assert.Equal(t, 2, bytes.Count(log.Bytes(), []byte("\n")), log.String())
	assert.Contains(t, log.String(), "level=WARN msg=\"health check status changed\" check=a status=failing reason=why")
	assert.Contains(t, log.String(), "level=INFO")
}

func TestNewRejectsInvalidConfig(t *testing.T) {
	t.Parallel()
	ok := found(health.StatusOK, nil)
	for name, c := range map[string]health.Config{
		"no checks": {}, "nil check": {Checks: map[string]health.Check{"a": nil}}, "no name": {Checks: map[string]health.Check{"": ok}},
	} {
		_, err := health.New(c)
		require.ErrorIs(t, err, api.ErrArgument, name)
	}
}
