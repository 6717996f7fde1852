package transport

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
)

// stuck is a transport that waits for the end of the request.
type stuck struct{}

func (stuck) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

// stuckBody is a body that never ends.
type stuckBody struct{ ctx context.Context }

func (b stuckBody) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

func (stuckBody) Close() error { return nil }

func stuckInBody() *answers {
	return &answers{answer: func(_ int, r *http.Request) (*http.Response, error) {
		response := reply(200, "")
		response.Body = stuckBody{r.Context()}
		return response, nil
	}}
}

func TestEveryAttemptTimesOut(t *testing.T) {
	t.Parallel()
	for name, transport := range map[string]http.RoundTripper{"no response": stuck{}, "no end of body": stuckInBody()} {
		for timeout, each := range map[time.Duration]time.Duration{0: DefaultAttemptTimeout, time.Second: time.Second, time.Hour: time.Hour} {
			t.Run(name+" "+timeout.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					client := newTestClient(t, transport, func(c *Config) {
						c.AttemptTimeout, c.Retry = timeout, api.RetryPolicy{MaxAttempts: 3, MinWait: 1, MaxWait: 1}
					})
					began := time.Now()
					err := get(t.Context(), client)
					assert.Equal(t, 3*each, time.Since(began).Truncate(time.Second))
					failure := failureOf(t, err)
					assert.Equal(t, 3, failure.Attempts)
					assert.True(t, failure.Timeout())
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					assert.Contains(t, err.Error(), ": timed out")
				})
			})
		}
	}
}

// If the caller's context ends before the attempt times out, the call returns the error of the
// context immediately and makes no other attempt.
func TestCanceledCallStopsAttempt(t *testing.T) {
	t.Parallel()
	leave := map[error]func(context.Context) (context.Context, context.CancelFunc){
		context.DeadlineExceeded: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		},
		context.Canceled: func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		},
	}
	for name, transport := range map[string]http.RoundTripper{"no response": stuck{}, "no end of body": stuckInBody()} {
		for want, start := range leave {
			t.Run(name+" "+want.Error(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					client := newTestClient(t, transport, func(c *Config) { c.AttemptTimeout = time.Minute })
					ctx, cancel := start(t.Context())
					defer cancel()
					began := time.Now()
					err := get(ctx, client)
					assert.Equal(t, time.Second, time.Since(began))
					require.ErrorIs(t, err, want)
					failure := failureOf(t, err)
					assert.Equal(t, 1, failure.Attempts)
					assert.Equal(t, want == context.DeadlineExceeded, failure.Timeout())
				})
			})
		}
	}
}

func TestNegativeTimeoutDisablesDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newTestClient(t, stuck{}, func(c *Config) { c.AttemptTimeout = -1 })
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, get(ctx, client), context.DeadlineExceeded)
		assert.Equal(t, 24*time.Hour, time.Since(began))
	})
}

func TestTimeoutExcludesWaitBetweenAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transport := &answers{answer: func(call int, r *http.Request) (*http.Response, error) {
			deadline, ok := r.Context().Deadline()
			assert.True(t, ok)
			assert.Equal(t, time.Second, time.Until(deadline), "attempt %d", call)
			if call < 3 {
				return reply(503, "{}", "Retry-After", "40"), nil
			}
			return reply(200, `{"patient":{"id":"p1"}}`), nil
		}}
		client := newTestClient(t, transport, func(c *Config) { c.AttemptTimeout = time.Second })
		assert.NoError(t, get(t.Context(), client))
	})
}

func TestAttemptContextEndsWithAttempt(t *testing.T) {
	t.Parallel()
	var contexts []context.Context
	transport := &answers{answer: func(call int, r *http.Request) (*http.Response, error) {
		contexts = append(contexts, r.Context())
		if call == 1 {
			return nil, io.ErrUnexpectedEOF
		}
		return reply(200, `{"patient":{"id":"p1"}}`), nil
	}}
	require.NoError(t, get(t.Context(), newTestClient(t, transport, func(c *Config) { c.Retry = api.RetryPolicy{MinWait: 1, MaxWait: 1} })))
	require.Len(t, contexts, 2)
	for _, ctx := range contexts {
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		<-ctx.Done()
		<-derived.Done()
		assert.ErrorIs(t, ctx.Err(), context.Canceled)
	}
}

// A transport may derive its context late, for example to close a connection.
func TestContextDerivedAfterAttemptHasEnded(t *testing.T) {
	t.Parallel()
	for _, deadline := range []time.Time{{}, time.Now().Add(time.Hour)} {
		attempt := &attemptContext{Context: t.Context(), deadline: deadline}
		attempt.end()
		assert.ErrorIs(t, attempt.Err(), context.Canceled)
	}
}
