package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// tokensOf is a token source that calls a function.
type tokensOf func() (api.AccessToken, error)

func (f tokensOf) Token(context.Context) (api.AccessToken, error) { return f() }

// The client checks the arguments before it fetches a token, fetches a token before it calls
// the limiter, and calls the limiter before it sends a request.
func TestPipelineRunsLinksInOrder(t *testing.T) {
	t.Parallel()
	get := Call{Operation: operation.PatientGet, Path: []string{"p"}}
	for name, c := range map[string]struct {
		call     Call
		tokenErr error
		want     []string
	}{
		"all steps":    {get, nil, []string{"token", "limiter", "sent"}},
		"no token":     {get, errors.New("none"), []string{"token"}},
		"bad argument": {Call{Operation: operation.PatientGet}, nil, nil},
	} {
		var order []string
		client := newTestClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			order = append(order, "sent")
			return reply(200, `{"patient":{"id":"p"}}`), nil
		}), func(config *Config) {
			config.Tokens = tokensOf(func() (api.AccessToken, error) { order = append(order, "token"); return validToken(), c.tokenErr })
			config.Limiter = limiterFunc(func(context.Context) error { order = append(order, "limiter"); return nil })
		})
		_, err := One[thing](t.Context(), client, c.call)
		assert.Equal(t, len(c.want) == 3, err == nil, name)
		assert.Equal(t, c.want, order, name)
	}
}

// Each attempt is one log record. The failed attempt has no status, the last one has a status
// and a request id, and neither contains the requested id.
func TestEachAttemptIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		fails := func() (*http.Response, error) { return nil, errors.New("canary") }
		client := newTestClient(t, turns(fails, found), func(c *Config) { c.Logger = logTo(&log) })
		_, err := One[thing](t.Context(), client, Call{Operation: operation.PatientGet, Path: []string{"canary"}})
		require.NoError(t, err)
		assert.NotContains(t, log.String(), "canary")
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		require.Len(t, lines, 2)
		var first, last map[string]any
		require.NoError(t, json.Unmarshal([]byte(lines[0]), &first))
		require.NoError(t, json.Unmarshal([]byte(lines[1]), &last))
		assert.Equal(t, "patients.get", first["operation"])
		assert.Equal(t, "network failure", first["error"])
		assert.NotContains(t, first, "status")
		assert.EqualValues(t, 2, last["attempt"])
		assert.EqualValues(t, 200, last["status"])
		assert.Equal(t, "req-1", last["request_id"])
	})
}

// trap contains all callbacks of a program in a call. It springs once, when a call reaches the
// chosen callback for the chosen time.
type trap struct {
	at     string
	skip   atomic.Int32
	spring func()
}

func (r *trap) reach(at string) {
	if at == r.at && r.skip.Add(-1) == -1 {
		r.spring()
	}
}

func (r *trap) Token(context.Context) (api.AccessToken, error) {
	r.reach("token source")
	return validToken(), nil
}

func (r *trap) Wait(context.Context) error { r.reach("limiter"); return nil }

func (r *trap) Enabled(context.Context, slog.Level) bool          { return true }
func (r *trap) Handle(context.Context, slog.Record) error         { r.reach("log handler"); return nil }
func (r *trap) WithAttrs([]slog.Attr) slog.Handler                { return r }
func (r *trap) WithGroup(string) slog.Handler                     { return r }
func (r *trap) callEnd(context.Context, observe.CallResult)       { r.reach("CallEnd") }
func (r *trap) attemptEnd(context.Context, observe.AttemptResult) { r.reach("AttemptEnd") }
func (r *trap) callStart(c context.Context, _ observe.Call) context.Context {
	r.reach("CallStart")
	return c
}
func (r *trap) attemptStart(c context.Context, _ observe.Attempt) context.Context {
	r.reach("AttemptStart")
	return c
}

// opened counts the bodies that are not closed.
type opened struct{ count atomic.Int32 }

type openBody struct {
	io.ReadCloser
	closed func()
}

func (b openBody) Close() error { b.closed(); return b.ReadCloser.Close() }

func (o *opened) around(inner http.RoundTripper) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		response, err := inner.RoundTrip(r)
		if err == nil {
			o.count.Add(1)
			response.Body = openBody{response.Body, sync.OnceFunc(func() { o.count.Add(-1) })}
		}
		return response, err
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// restless is a list with drift. Its second request fails once.
func restless() *responder {
	return &responder{respond: func(call int, r *http.Request) (*http.Response, error) {
		if call == 2 {
			return reply(500, `{"error":"Internal Server Error"}`), nil
		}
		return metas(
			`{"current_page":1,"next_page":2,"total_pages":4,"total_count":5}`, `{"current_page":2,"next_page":3,"total_pages":4,"total_count":4}`,
			`{"current_page":3,"next_page":4,"total_pages":4,"total_count":4}`, `{"current_page":4,"total_pages":4,"total_count":4}`,
		).respond(call, r)
	}}
}

func (r *trap) client(t *testing.T, transport http.RoundTripper) *Client {
	return newTestClient(t, transport, withTokens(r), func(c *Config) {
		c.Limiter, c.Logger = r, slog.New(r)
		c.Observers = []observe.Observer{{CallStart: r.callStart, AttemptStart: r.attemptStart, AttemptEnd: r.attemptEnd, CallEnd: r.callEnd}}
	})
}

var callbacks = []string{
	"token source", "limiter", "log handler", "CallStart", "AttemptStart", "AttemptEnd", "CallEnd",
}

var errPanic = errors.New("a panic of the program")

// A panic in a callback reaches the goroutine that reads the list, whichever goroutine ran the
// callback. It leaves no goroutine and no open body: a synctest bubble fails if a goroutine
// outlives it.
func TestCallbackPanicReachesCaller(t *testing.T) {
	t.Parallel()
	for _, at := range callbacks {
		for _, prefetch := range []int{0, 3} {
			for _, skip := range []int32{0, 1} {
				synctest.Test(t, func(t *testing.T) {
					caught := &trap{at: at, spring: func() { panic(errPanic) }}
					caught.skip.Store(skip)
					bodies := &opened{}
					client := caught.client(t, bodies.around(restless()))
					walk := func() (err error) {
						for _, err = range listOf(client, Call{Operation: operation.ProductList}, api.ListSettings{Prefetch: prefetch}).Pages(t.Context()) {
							if err != nil {
								break
							}
						}
						return err
					}
					assert.PanicsWithValue(t, errPanic, func() { _ = walk() }, "%s, prefetch %d", at, prefetch)
					synctest.Wait()
					assert.Zero(t, bodies.count.Load(), "%s, prefetch %d: bodies left open", at, prefetch)
					require.NoError(t, walk(), "%s, prefetch %d: the client still works", at, prefetch)
				})
			}
		}
	}
}

// A callback that ends its goroutine, as FailNow of a test does, ends the goroutine that reads
// the list.
func TestCallbackGoexitEndsList(t *testing.T) {
	t.Parallel()
	for _, prefetch := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			caught := &trap{at: "token source", spring: runtime.Goexit}
			caught.skip.Store(1)
			client := caught.client(t, restless())
			ended, returned := make(chan struct{}), false
			go func() {
				defer close(ended)
				_, _ = collect(t, client, api.ListSettings{Prefetch: prefetch})
				returned = true
			}()
			<-ended
			assert.False(t, returned)
		})
	}
}

// A panic in Ensure releases its key.
func TestPanicInEnsureReleasesKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newTestClient(t, &responder{})
		for _, panics := range []string{"find", "create"} {
			record := Ensuring[thing]{Call: Call{Operation: operation.TreatmentPlanCreate}, ID: "k", Find: func(context.Context) (*thing, error) {
				if panics == "find" {
					panic(errPanic)
				}
				return nil, nil
			}, create: func(context.Context) (*thing, error) { panic(errPanic) }}
			assert.PanicsWithValue(t, errPanic, func() { _, _, _ = record.run(t.Context(), client) })
			record.Find = func(context.Context) (*thing, error) { return &thing{ID: "x"}, nil }
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _, err := record.run(ctx, client)
			cancel()
			require.NoError(t, err, "after a panic in %s", panics)
		}
		assert.Empty(t, client.ensuring.held)
	})
}
