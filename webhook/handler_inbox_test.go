package webhook_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

func TestInboxFailureCausesRedelivery(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk is full")
	for name, c := range map[string]struct {
		inbox inboxFunc
		err   []error
		text  string
	}{
		"error": {func(context.Context, webhook.Delivery) (webhook.Receipt, error) { return webhook.Receipt{}, broken }, []error{webhook.ErrInbox, broken}, "webhook: inbox did not accept the event: disk is full"},
		"own timeout": {func(context.Context, webhook.Delivery) (webhook.Receipt, error) {
			return webhook.Receipt{}, context.DeadlineExceeded
		}, []error{webhook.ErrInbox}, "webhook: inbox did not accept the event: context deadline exceeded"},
		"panic": {func(context.Context, webhook.Delivery) (webhook.Receipt, error) { panic(broken) }, []error{webhook.ErrInbox, safecall.ErrPanic}, "webhook: inbox did not accept the event: webhook: panic with a value of type *errors.errorString"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, func(config *webhook.HandlerConfig) { config.Inbox = c.inbox })
			w := r.serve(t, request(http.MethodPost, sign(secret, now, orderBody), orderBody))
			assert.Equal(t, http.StatusServiceUnavailable, w.Code)
			assert.Equal(t, webhook.OutcomeUnavailable, r.last().Outcome)
			assert.Equal(t, orderKey, r.last().Key)
			require.EqualError(t, r.last().Err, c.text)
			for _, err := range c.err {
				require.ErrorIs(t, r.last().Err, err)
			}
		})
	}
}

func TestHandlerLimitsTimeOfInbox(t *testing.T) {
	t.Parallel()
	for name, inbox := range map[string]inboxFunc{
		"returns at deadline": func(ctx context.Context, _ webhook.Delivery) (webhook.Receipt, error) {
			<-ctx.Done()
			return webhook.Receipt{}, ctx.Err()
		},
		"ignores deadline": func(context.Context, webhook.Delivery) (webhook.Receipt, error) {
			time.Sleep(time.Hour)
			return webhook.Receipt{}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newFixture(t, func(config *webhook.HandlerConfig) { config.Inbox, config.Now = inbox, time.Now })
				start := time.Now()
				w := r.serve(t, request(http.MethodPost, sign(secret, start, orderBody), orderBody))
				assert.Equal(t, http.StatusServiceUnavailable, w.Code)
				assert.Equal(t, 800*time.Millisecond, time.Since(start))
				assert.Equal(t, 800*time.Millisecond, r.last().Duration)
				require.ErrorIs(t, r.last().Err, webhook.ErrInboxTimeout)
				time.Sleep(time.Hour) // on the fake clock, until the inbox returns
			})
		})
	}
}

func TestInboxOutlivesRequestContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, func(config *webhook.HandlerConfig) {
			config.Now, config.AcceptTimeout = time.Now, time.Second
			config.Inbox = inboxFunc(func(ctx context.Context, _ webhook.Delivery) (webhook.Receipt, error) {
				assert.Equal(t, "trace", ctx.Value(key{}))
				time.Sleep(500 * time.Millisecond)
				deadline, _ := ctx.Deadline()
				assert.Equal(t, 500*time.Millisecond, time.Until(deadline))
				return webhook.Receipt{}, ctx.Err()
			})
		})
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "trace"))
		cancel() // the sender is gone, but its event must be stored
		w := r.serve(t, request(http.MethodPost, sign(secret, time.Now(), orderBody), orderBody).WithContext(ctx))
		assert.Equal(t, http.StatusOK, w.Code)
	})
}

// A panic of the observer or the logger must not change the response.
func TestHandlerSurvivesObserverPanic(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := newFixture(t, func(config *webhook.HandlerConfig) {
		config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		config.Observer.RequestEnd = func(context.Context, webhook.Observation) { panic("observer") }
	})
	w := r.serve(t, request(http.MethodPost, sign(secret, now, orderBody), orderBody))
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, log.String(), "webhook observer failed")
	r = newFixture(t, func(config *webhook.HandlerConfig) {
		config.Logger = slog.New(brokenLog{slog.NewTextHandler(&log, nil)})
	})
	assert.Equal(t, http.StatusOK, r.serve(t, request(http.MethodPost, sign(secret, now, orderBody), orderBody)).Code)
}

type brokenLog struct{ slog.Handler }

func (brokenLog) Handle(context.Context, slog.Record) error { panic("no disk") }

func TestHandlerLogsRequests(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	drop := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	r := newFixture(t, func(config *webhook.HandlerConfig) {
		config.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: drop}))
	})
	r.serve(t, request(http.MethodPost, sign(secret, now, orderBody), orderBody))
	r.serve(t, request(http.MethodPost, sign("other", now, orderBody), orderBody))
	assert.Equal(t, `level=INFO msg="webhook accepted" outcome=accepted status=200 duration=0s environment=us/sandbox event_id=evt_1 event_type=order.placed integration_id=in_1
level=WARN msg="webhook rejected" outcome=rejected status=401 duration=0s reason="webhook: signature does not match"
`, log.String())
}

// The inbox receives the whole event, already parsed, so that the body is parsed only once.
func TestDeliveryContainsParsedEvent(t *testing.T) {
	t.Parallel()
	var event events.Event
	var got webhook.Delivery
	r := newFixture(t, func(c *webhook.HandlerConfig) {
		c.Inbox = inboxFunc(func(_ context.Context, d webhook.Delivery) (receipt webhook.Receipt, err error) {
			got, d.Body = d, nil
			event, err = d.Event()
			return receipt, err
		})
	})
	w := r.serve(t, request(http.MethodPost, sign(secret, now, orderBody), orderBody))
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Equal(t, []any{orderKey, events.TypeOrderPlaced, "cl_1", time.Date(2026, 11, 20, 10, 20, 30, 0, time.UTC), now, orderBody},
		[]any{got.Key, got.Type, got.ClinicID, got.CreatedAt, got.ReceivedAt, string(got.Body)})
	want, err := webhook.Delivery{Key: orderKey, Body: got.Body}.Event()
	require.NoError(t, err)
	assert.Equal(t, want, event)
	assert.Equal(t, "evt_1", event.ID)
	_, err = webhook.Delivery{Key: orderKey}.Event()
	require.ErrorIs(t, err, events.ErrMalformed, "a stored delivery must be parsed again")
}

type begunKey struct{}

func begun(ctx context.Context) context.Context { return context.WithValue(ctx, begunKey{}, true) }

func hasBegun(ctx context.Context) bool { return ctx.Value(begunKey{}) == true }

// The inbox and RequestEnd must receive the context of RequestStart.
func TestHandlerPropagatesRequestStartContext(t *testing.T) {
	t.Parallel()
	var inbox, observer bool
	r := newFixture(t, func(c *webhook.HandlerConfig) {
		c.Observer.RequestStart = func(ctx context.Context, _ *http.Request) context.Context { return begun(ctx) }
		c.Inbox = inboxFunc(func(ctx context.Context, _ webhook.Delivery) (webhook.Receipt, error) {
			inbox = hasBegun(ctx)
			return webhook.Receipt{}, nil
		})
		observe := c.Observer.RequestEnd
		c.Observer.RequestEnd = func(ctx context.Context, o webhook.Observation) {
			observer = hasBegun(ctx)
			observe(ctx, o)
		}
	})
	w := r.serve(t, request(http.MethodPost, sign(secret, now, orderBody), orderBody))
	assert.Equal(t, http.StatusOK, w.Code)
	assert.True(t, inbox)
	assert.True(t, observer)
}

// A hanging observer must delay neither the response nor the next request of the connection.
func TestSlowObserverDelaysNoResponse(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	ended := make(chan error, 3)
	observer := webhook.Observer{RequestEnd: func(ctx context.Context, _ webhook.Observation) {
		<-hang
		ended <- ctx.Err()
	}}
	r := newFixture(t, func(c *webhook.HandlerConfig) { c.Observer = observer })
	mux := http.NewServeMux()
	mux.Handle("/webhooks", r)
	mux.Handle("/", webhook.NotFoundHandler(nil, observer))
	server := httptest.NewServer(mux)
	defer server.Close()
	client := server.Client()
	client.Transport.(*http.Transport).MaxConnsPerHost = 1
	for path, status := range map[string]int{"/webhooks": http.StatusOK, "/webhooks?again": http.StatusOK, "/other": http.StatusNotFound} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader(orderBody))
		require.NoError(t, err)
		req.Header.Set(webhook.SignatureHeader, sign(secret, now, orderBody))
		response, err := client.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, status, response.StatusCode)
		assert.Equal(t, strconv.Itoa(len(body)), response.Header.Get("Content-Length"))
	}
	close(hang)
	for range 3 {
		require.NoError(t, <-ended, "the context must outlive the request")
	}
}

// Requests for an unknown path are reported, because the platform may still use the path.
func TestNotFoundHandlerReportsRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method string
		header string
		want   error // beside ErrUnknownPath
	}{
		"signed":    {http.MethodPost, sign("another secret", now, orderBody), webhook.ErrUnknownPath},
		"unsigned":  {http.MethodPost, "", webhook.ErrSignatureMissing},
		"malformed": {http.MethodPost, "x", webhook.ErrSignatureMalformed},
		"browser":   {http.MethodGet, "", webhook.ErrMethod},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			var observed []webhook.Observation
			handler := webhook.NotFoundHandler(slog.New(slog.NewTextHandler(&log, nil)), webhook.Observer{
				RequestEnd: func(_ context.Context, o webhook.Observation) { observed = append(observed, o) },
			})
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, request(c.method, c.header, orderBody))
			assert.Equal(t, http.StatusNotFound, w.Code)
			assert.Equal(t, "Not Found\n", w.Body.String())
			require.Len(t, observed, 1)
			assert.Equal(t, webhook.OutcomeRejected, observed[0].Outcome)
			assert.Equal(t, http.StatusNotFound, observed[0].Status)
			require.ErrorIs(t, observed[0].Err, webhook.ErrUnknownPath)
			require.ErrorIs(t, observed[0].Err, c.want)
			assert.Contains(t, log.String(), "status=404")
		})
	}
}
