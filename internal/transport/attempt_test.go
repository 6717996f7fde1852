package transport

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
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

func stuckInBody() *responder {
	return &responder{respond: func(_ int, r *http.Request) (*http.Response, error) {
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
		transport := &responder{respond: func(call int, r *http.Request) (*http.Response, error) {
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
	transport := &responder{respond: func(call int, r *http.Request) (*http.Response, error) {
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

// moving is a token source whose user connects another account after a number of tokens.
type moving struct {
	accounts []api.Account // of the tokens in order, the last one for all later tokens
	tokens   atomic.Int32
}

func (m *moving) Token(context.Context) (api.AccessToken, error) {
	n := int(m.tokens.Add(1))
	return api.AccessToken{
		Secret: api.NewSecret(fmt.Sprint("token-", n)), Environment: sandbox, Account: m.accounts[min(n, len(m.accounts))-1],
	}, nil
}

func (m *moving) Refresh(ctx context.Context, _ api.AccessToken) (api.AccessToken, error) {
	return m.Token(ctx)
}

var (
	jane     = api.Account{OwnerType: "Practitioner", OwnerID: "1", ClinicID: "7"}
	john     = api.Account{OwnerType: "Practitioner", OwnerID: "2", ClinicID: "8"}
	moved    = api.Account{OwnerType: "Practitioner", OwnerID: "1", ClinicID: "8"}
	homeless = api.Account{OwnerType: "Practitioner", OwnerID: "1"}
	anyone   = api.Account{ClinicID: "7"}
)

func TestCallIsNotRepeatedAsOtherAccount(t *testing.T) {
	t.Parallel()
	for _, other := range []api.Account{john, moved} {
		transport := accept("token-2")
		err := createOnce(t.Context(), newTestClient(t, transport, withTokens(&moving{accounts: []api.Account{jane, other}})))
		var changed *api.AccountChangedError
		require.ErrorAs(t, err, &changed)
		assert.Equal(t, api.AccountChangedError{Before: jane, Now: other}, *changed)
		assert.ErrorIs(t, err, api.ErrAccountChanged)
		assert.ErrorIs(t, err, api.ErrNotApplied)
		assert.EqualValues(t, 1, transport.calls.Load())
		assert.Equal(t, http.StatusConflict, api.ProblemOf(err).Status)
	}
}

func TestUnknownAccountIsNotCompared(t *testing.T) {
	t.Parallel()
	for _, accounts := range [][]api.Account{{jane, {}}, {{}, jane}, {homeless, jane}, {jane, homeless}, {anyone, jane}} {
		transport := accept("token-2")
		require.NoError(t, createOnce(t.Context(), newTestClient(t, transport, withTokens(&moving{accounts: accounts}))))
	}
}

func TestListEndsIfAccountChanges(t *testing.T) {
	t.Parallel()
	for name, accounts := range map[string][]api.Account{
		"known at once": {jane, jane, john}, "known later": {homeless, jane, moved},
	} {
		for _, prefetch := range []int{0, 4} {
			t.Run(fmt.Sprint(name, prefetch), func(t *testing.T) {
				t.Parallel()
				transport := &responder{respond: func(_ int, r *http.Request) (*http.Response, error) {
					number := param(r, "page[number]")
					return products(number*10-10, number*10, `{"current_page":%d,"total_pages":9,"total_count":90}`, number), nil
				}}
				client := newTestClient(t, transport, withTokens(&moving{accounts: accounts}))
				items, err := collect(t, client, api.ListSettings{Prefetch: prefetch})
				assert.ErrorIs(t, err, api.ErrAccountChanged)
				assert.ErrorIs(t, err, api.ErrNotSent)
				assert.EqualValues(t, 2, transport.calls.Load(), "requests sent")
				assert.LessOrEqual(t, len(items), 20)
			})
		}
	}
}

func TestWorkBelongsToOneClient(t *testing.T) {
	t.Parallel()
	transport := accept("token-1")
	work := OneAccount(t.Context())
	mine := newTestClient(t, transport, withTokens(&moving{accounts: []api.Account{jane}}))
	require.NoError(t, get(work, mine))
	assert.Equal(t, work, mine.OneAccount(work), "part of larger work")

	others := newTestClient(t, transport, withTokens(&moving{accounts: []api.Account{john}}))
	require.NoError(t, get(work, others), "a token source may call with the context of a call")
	assert.NotEqual(t, work, others.OneAccount(work))
}
