package health_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/health"
)

// found returns a check that finds always the same.
func found(status health.Status, err error) health.Check {
	return func(context.Context) health.Result { return health.Result{Status: status, Err: err} }
}

func newHandler(t *testing.T, c health.Config) *health.Handler {
	t.Helper()
	handler, err := health.New(c)
	require.NoError(t, err)
	return handler
}

// answer is what the handler writes.
type answer struct {
	Status health.Status
	Checks map[string]struct {
		Status  health.Status
		Details map[string]any
	}
}

func get(t *testing.T, handler http.Handler, target string) (int, answer) {
	t.Helper()
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))
	var a answer
	require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &a), recorder.Body.String())
	return recorder.Code, a
}

func TestReady(t *testing.T) {
	t.Parallel()
	ok, degraded, failing := found(health.OK, nil), found(health.Degraded, errors.New("canary")), found(health.Failing, errors.New("canary"))
	for name, c := range map[string]struct {
		checks       health.Checks
		status       health.Status
		code, strict int
	}{
		"all well":     {health.Checks{"a": ok, "b": ok}, health.OK, 200, 200},
		"one degraded": {health.Checks{"a": ok, "b": degraded}, health.Degraded, 200, 503},
		"one failing":  {health.Checks{"a": ok, "b": failing}, health.Failing, 503, 503},
		"both":         {health.Checks{"a": degraded, "b": failing, "c": degraded}, health.Failing, 503, 503},
		"no status":    {health.Checks{"a": found("", nil)}, health.Failing, 503, 503},
		"a panic":      {health.Checks{"a": func(context.Context) health.Result { panic("canary") }}, health.Failing, 503, 503},
		"a goexit":     {health.Checks{"a": func(context.Context) health.Result { runtime.Goexit(); return health.Result{} }}, health.Failing, 503, 503},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handler := newHandler(t, health.Config{Checks: c.checks})
			code, a := get(t, handler, "/ops/readyz")
			assert.Equal(t, c.code, code)
			assert.Equal(t, c.status, a.Status)
			assert.Len(t, a.Checks, len(c.checks))
			code, _ = get(t, handler, "/readyz?strict")
			assert.Equal(t, c.strict, code)
			code, a = get(t, handler, "/healthz?strict")
			assert.Equal(t, 200, code, "no restart helps")
			assert.Equal(t, answer{Status: health.OK}, a)
		})
	}
}

func TestNothingIsShownButDetails(t *testing.T) {
	t.Parallel()
	handler := newHandler(t, health.Config{Checks: health.Checks{"a": func(context.Context) health.Result {
		return health.Result{Status: health.Failing, Err: errors.New("canary"), Details: map[string]any{"waiting": 3}}
	}}})
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
	assert.JSONEq(t, `{"status":"failing","checks":{"a":{"status":"failing","details":{"waiting":3}}}}`, recorder.Body.String())
	assert.Equal(t, "no-store", recorder.Header().Get("Cache-Control"))
	assert.Equal(t, "health.Handler", fmt.Sprintf("%+v", handler))
}

func TestOtherRequests(t *testing.T) {
	t.Parallel()
	handler := newHandler(t, health.Config{Checks: health.Checks{"a": found(health.OK, nil)}})
	for target, want := range map[string]int{"GET /": 404, "GET /status": 404, "POST /readyz": 405, "HEAD /readyz": 200} {
		var method, path string
		_, err := fmt.Sscan(target, &method, &path)
		require.NoError(t, err)
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		assert.Equal(t, want, recorder.Code, target)
	}
}

// A check that does not come back makes the program not ready, and does not pile up.
func TestACheckThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var begun atomic.Int32
		release := make(chan struct{})
		handler := newHandler(t, health.Config{Timeout: time.Second, Checks: health.Checks{
			"a": found(health.OK, nil),
			"b": func(context.Context) health.Result {
				begun.Add(1)
				<-release
				return health.Result{Status: health.OK}
			},
		}})
		for range 3 {
			code, a := get(t, handler, "/readyz")
			assert.Equal(t, 503, code)
			assert.Equal(t, health.OK, a.Checks["a"].Status)
			assert.Equal(t, health.Failing, a.Checks["b"].Status)
		}
		assert.EqualValues(t, 1, begun.Load())
		close(release)
		synctest.Wait()
		code, _ := get(t, handler, "/readyz")
		assert.Equal(t, 200, code)
	})
}

// Requests that come at the same time share a check, and one that leaves takes nothing
// from the others.
func TestRequestsShareAChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var begun atomic.Int32
		release := make(chan struct{})
		handler := newHandler(t, health.Config{Checks: health.Checks{"a": func(ctx context.Context) health.Result {
			begun.Add(1)
			select {
			case <-release:
				return health.Result{Status: health.OK}
			case <-ctx.Done():
				return health.Result{Status: health.Failing, Err: ctx.Err()}
			}
		}}})
		leaving, leave := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(leaving, http.MethodGet, "/readyz", nil))
		})
		synctest.Wait()
		for range 5 {
			group.Go(func() {
				code, _ := get(t, handler, "/readyz")
				assert.Equal(t, 200, code)
			})
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		close(release)
		group.Wait()
		assert.EqualValues(t, 1, begun.Load())
	})
}

func TestChangesAreLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	status := health.OK
	handler := newHandler(t, health.Config{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Checks: health.Checks{"a": func(context.Context) health.Result { return health.Result{Status: status, Err: errors.New("why")} }},
	})
	for _, now := range []health.Status{health.OK, health.Failing, health.Failing, health.OK, health.OK} {
		status = now
		get(t, handler, "/readyz")
	}
	assert.Equal(t, 2, bytes.Count(log.Bytes(), []byte("\n")), log.String())
	assert.Contains(t, log.String(), "level=WARN msg=\"health of a part changed\" check=a status=failing reason=why")
	assert.Contains(t, log.String(), "level=INFO")
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	ok := found(health.OK, nil)
	for name, c := range map[string]health.Config{
		"no checks": {}, "a nil check": {Checks: health.Checks{"a": nil}}, "no name": {Checks: health.Checks{"": ok}},
		"a negative time": {Checks: health.Checks{"a": ok}, Timeout: -1},
	} {
		_, err := health.New(c)
		require.ErrorIs(t, err, api.ErrInvalidArgument, name)
	}
}
