package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
)

const (
	secret    = "whsec_current_0123456789abcdef"
	oldSecret = "whsec_old_0123456789abcdef"
	challenge = "challenge-token-0123456789"

	orderBody = `{"event":{"id":"evt_1","type":"order.placed","created_at":"2026-11-20T10:20:30Z","clinic_id":"cl_1","data":{"order":{"id":"or_1","order_number":"R100"}},"integration_id":"in_1"}}`
)

var (
	sandbox  = api.USSandbox
	now      = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	orderKey = webhook.Key{Environment: sandbox, EventID: "evt_1", IntegrationID: "in_1"}
)

// mac signs a body as the platform does.
func mac(secret, timestamp, body string) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(timestamp + "." + body))
	return hex.EncodeToString(m.Sum(nil))
}

// sign returns the signature header of a body at the given time.
func sign(secret string, at time.Time, body string) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + mac(secret, t, body)
}

// inboxFunc is a function that implements Inbox.
type inboxFunc func(context.Context, webhook.Delivery) (webhook.Receipt, error)

func (f inboxFunc) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	return f(ctx, d)
}

// fixture is a handler with an inbox. It records accepted deliveries and observations.
type fixture struct {
	*webhook.Handler
	mu       sync.Mutex
	accepted []webhook.Delivery
	observed []webhook.Observation
}

// newFixture returns a fixture with the clock at now. If change is not nil, newFixture calls it
// with the configuration first.
func newFixture(t testing.TB, change func(*webhook.HandlerConfig)) *fixture {
	t.Helper()
	r := &fixture{}
	config := webhook.HandlerConfig{
		Environment: sandbox,
		Secrets:     []api.Secret{api.NewSecret(secret), api.NewSecret(oldSecret)},
		Challenge:   api.NewSecret(challenge),
		Inbox:       inboxFunc(r.accept),
		Now:         func() time.Time { return now },
		Observer:    webhook.Observer{RequestEnd: func(_ context.Context, o webhook.Observation) { r.observed = append(r.observed, o) }},
	}
	if change != nil {
		change(&config)
	}
	handler, err := webhook.NewHandler(config)
	require.NoError(t, err)
	r.Handler = handler
	return r
}

func (r *fixture) accept(_ context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.accepted {
		if a.Key == d.Key {
			return webhook.Receipt{Duplicate: true}, nil
		}
	}
	r.accepted = append(r.accepted, d)
	return webhook.Receipt{}, nil
}

// request returns a request. If header is empty, it has no signature header.
func request(method, header, body string) *http.Request {
	r := httptest.NewRequest(method, "/webhooks", strings.NewReader(body))
	if header != "" {
		r.Header.Set(webhook.SignatureHeader, header)
	}
	return r
}

// serve sends a request to the handler and checks the common properties of all responses.
func (r *fixture) serve(t testing.TB, req *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	assert.NotEqual(t, http.StatusGone, w.Code, "the platform disables an endpoint after a 410")
	if w.Code == http.StatusOK {
		assert.JSONEq(t, `{"challenge":"`+challenge+`"}`, w.Body.String())
		assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
	} else {
		assert.Equal(t, http.StatusText(w.Code)+"\n", w.Body.String(), "the body must contain only the status")
	}
	if len(r.observed) > 0 {
		o := r.observed[len(r.observed)-1]
		assert.Equal(t, w.Code, o.Status)
		assert.Equal(t, w.Code == http.StatusOK, o.Err == nil)
	}
	return w
}

// last returns the observation of the last request.
func (r *fixture) last() webhook.Observation { return r.observed[len(r.observed)-1] }

// errDown is the error of a failing handler.
var errDown = errors.New("the database is down")

func succeed(context.Context, events.Event) error { return nil }
func fail(context.Context, events.Event) error    { return errDown }

// marked stands for patient data.
const marked = "Zaphod-Marked"

// silent fails the test if printed contains patient data or a secret.
func silent(t *testing.T, printed string) {
	t.Helper()
	require.NotEmpty(t, printed)
	for _, word := range []string{marked, secret, challenge} {
		for _, form := range []string{word, fmt.Sprintf("%x", word), strings.Trim(fmt.Sprint([]byte(word)), "[]")} {
			if i := strings.Index(printed, form); i >= 0 {
				t.Errorf("%q was printed after %q", form, printed[max(0, i-200):i])
			}
		}
	}
}

func TestHandlerPrintsNoPatientData(t *testing.T) {
	t.Parallel()
	patient := `{"event":{"id":"evt_1","type":"patient.updated","data":{"patient":{"first_name":"` + marked + `"}}}}`
	var out bytes.Buffer
	for _, inbox := range []webhook.Inbox{nil,
		inboxFunc(func(_ context.Context, d webhook.Delivery) (webhook.Receipt, error) {
			return webhook.Receipt{}, fmt.Errorf("cannot store %v", d)
		}),
		inboxFunc(func(_ context.Context, d webhook.Delivery) (webhook.Receipt, error) { panic(string(d.Body)) }),
		inboxFunc(func(_ context.Context, d webhook.Delivery) (webhook.Receipt, error) {
			panic(errors.New(string(d.Body)))
		}),
	} {
		r := newFixture(t, func(c *webhook.HandlerConfig) {
			c.Logger = receivertest.Loggers(&out)
			if inbox != nil {
				c.Inbox = inbox
			}
			receivertest.Say(&out, *c)
		})
		for _, body := range []string{patient, patient, patient + marked, `{"` + marked + `":1}`, marked} {
			for _, header := range []string{sign(secret, now, body), sign("other", now, body), "", "t=" + marked, sign(secret, now.Add(time.Hour), body)} {
				r.serve(t, request(http.MethodPost, header, body))
				receivertest.Say(&out, r.last())
				receivertest.Say(&out, r.last().Err)
			}
		}
		for _, d := range r.accepted {
			receivertest.Say(&out, d)
			receivertest.Say(&out, &d)
			receivertest.Say(&out, struct{ D webhook.Delivery }{d})
		}
		receivertest.Say(&out, r.Handler)
	}
	receivertest.Say(&out, newVerifier(t, now, api.NewSecret(secret)))
	silent(t, out.String())
}
