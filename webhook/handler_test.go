package webhook_test

import (
	"cmp"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

func TestHandlerVerifiesRequests(t *testing.T) {
	t.Parallel()
	stamp := strconv.FormatInt(now.Unix(), 10)
	good := mac(secret, stamp, orderBody)
	for _, c := range []struct {
		name    string
		method  string // POST if empty
		header  string
		body    string
		config  func(*webhook.HandlerConfig)
		status  int             // 401 if empty and err is set
		outcome webhook.Outcome // accepted if empty and err is nil
		err     error
		text    string // part of the error text
	}{
		{name: "valid", header: sign(secret, now, orderBody), body: orderBody},
		{name: "rotated secret", header: sign(oldSecret, now, orderBody), body: orderBody},
		{name: "two v1, second matches", header: "t=" + stamp + ",v1=" + strings.Repeat("0", 64) + ",v1=" + good, body: orderBody},
		{name: "oldest allowed", header: sign(secret, now.Add(-5*time.Minute), orderBody), body: orderBody},
		{name: "newest allowed", header: sign(secret, now.Add(5*time.Minute), orderBody), body: orderBody},
		{name: "unknown type", header: sign(secret, now, `{"event":{"id":"e","type":"galaxy.born"}}`), body: `{"event":{"id":"e","type":"galaxy.born"}}`},
		{name: "event_payload", header: sign(secret, now, `{"event_payload":`+orderBody+`}`), body: `{"event_payload":` + orderBody + `}`},
		{name: "bare event", header: sign(secret, now, `{"id":"e","type":"order.placed"}`), body: `{"id":"e","type":"order.placed"}`},
		{name: "signed probe", header: sign(secret, now, ""), outcome: webhook.OutcomeProbe},
		{name: "unsigned probe with the option", config: answerUnsigned, outcome: webhook.OutcomeProbe},

		{name: "unsigned probe", err: webhook.ErrSignatureMissing},
		{name: "badly signed probe with the option", header: sign("other", now, ""), config: answerUnsigned, err: webhook.ErrSignatureMismatch},
		{name: "unsigned body with the option", body: orderBody, config: answerUnsigned, err: webhook.ErrSignatureMissing},
		{name: "missing signature", body: orderBody, err: webhook.ErrSignatureMissing},
		{name: "malformed signature", header: "sha256=" + good[:10] + ",x", body: orderBody, err: webhook.ErrSignatureMalformed},
		{name: "signed with the challenge", header: sign(challenge, now, orderBody), body: orderBody, err: webhook.ErrSignatureMismatch},
		{name: "changed body", header: sign(secret, now, orderBody), body: strings.Replace(orderBody, "R100", "R101", 1), err: webhook.ErrSignatureMismatch},
		{name: "body and probe signature", header: sign(secret, now, ""), body: orderBody, err: webhook.ErrSignatureMismatch},
		{name: "stale", header: sign(secret, now.Add(-5*time.Minute-time.Second), orderBody), body: orderBody, err: webhook.ErrTimestampTooOld},
		{name: "future", header: sign(secret, now.Add(5*time.Minute+time.Second), orderBody), body: orderBody, err: webhook.ErrTimestampTooNew},
		{name: "stale with a wider tolerance", header: sign(secret, now.Add(-time.Hour), orderBody), body: orderBody,
			config: func(c *webhook.HandlerConfig) { c.Tolerance = time.Hour }},
		{name: "wrong method", method: http.MethodGet, header: sign(secret, now, ""), status: 405, err: webhook.ErrMethod},
		{name: "PUT", method: http.MethodPut, header: sign(secret, now, orderBody), body: orderBody, status: 405, err: webhook.ErrMethod},
		{name: "body over the limit", header: sign(secret, now, orderBody), body: orderBody,
			config: func(c *webhook.HandlerConfig) { c.MaxBody = 100 }, status: 413, err: webhook.ErrBodyTooLarge},
		{name: "body at the limit", header: sign(secret, now, orderBody), body: orderBody,
			config: func(c *webhook.HandlerConfig) { c.MaxBody = int64(len(orderBody)) }},
		{name: "signed, not JSON", header: sign(secret, now, "event=1"), body: "event=1", status: 400, err: events.ErrMalformed},
		{name: "signed, no event", header: sign(secret, now, `{"event":{"id":"e"}}`), body: `{"event":{"id":"e"}}`, status: 400, err: events.ErrNoEvent},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, c.config)
			w := r.serve(t, request(cmp.Or(c.method, http.MethodPost), c.header, c.body))
			require.Len(t, r.observed, 1)
			require.ErrorIs(t, r.last().Err, c.err)
			assert.Equal(t, w.Code == http.StatusMethodNotAllowed, w.Header().Get("Allow") == http.MethodPost)
			if c.err != nil {
				assert.Equal(t, cmp.Or(c.status, http.StatusUnauthorized), w.Code)
				assert.Equal(t, webhook.OutcomeRefused, r.last().Outcome)
				assert.ErrorContains(t, r.last().Err, c.text)
				assert.Empty(t, r.accepted)
				return
			}
			assert.Equal(t, http.StatusOK, w.Code)
			assert.Equal(t, cmp.Or(c.outcome, webhook.OutcomeAccepted), r.last().Outcome)
			assert.Equal(t, c.outcome == "", len(r.accepted) == 1)
		})
	}
}

func answerUnsigned(c *webhook.HandlerConfig) { c.AnswerUnsignedProbe = true }

func TestHandlerAcknowledgesDuplicates(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	for i, c := range []struct {
		body    string
		outcome webhook.Outcome
		stored  int
	}{
		{orderBody, webhook.OutcomeAccepted, 1},
		{orderBody, webhook.OutcomeDuplicate, 1},
		{strings.Replace(orderBody, "in_1", "in_2", 1), webhook.OutcomeAccepted, 2}, // another integration
		{strings.Replace(orderBody, "evt_1", "evt_2", 1), webhook.OutcomeAccepted, 3},
	} {
		w := r.serve(t, request(http.MethodPost, sign(secret, now, c.body), c.body))
		assert.Equal(t, http.StatusOK, w.Code, i)
		assert.Equal(t, c.outcome, r.last().Outcome, i)
		assert.Len(t, r.accepted, c.stored, i)
	}
}

func TestHandlerRejectsSecondHeader(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	req := request(http.MethodPost, sign(secret, now, orderBody), orderBody)
	req.Header.Add(webhook.SignatureHeader, "t=1,v1=00")
	assert.Equal(t, http.StatusUnauthorized, r.serve(t, req).Code)
	require.ErrorIs(t, r.last().Err, webhook.ErrSignatureMalformed)
	assert.ErrorContains(t, r.last().Err, "more than once")
}

func TestHandlerRejectsWithoutReadingBody(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*http.Request){
		"method":    func(r *http.Request) { r.Method = http.MethodDelete },
		"missing":   func(r *http.Request) { r.Header.Del(webhook.SignatureHeader) },
		"malformed": func(r *http.Request) { r.Header.Set(webhook.SignatureHeader, "v1") },
		"stale":     func(r *http.Request) { r.Header.Set(webhook.SignatureHeader, sign(secret, now.Add(-time.Hour), "")) },
		"length":    func(r *http.Request) { r.ContentLength = 2 << 20 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, nil)
			req := request(http.MethodPost, sign(secret, now, orderBody), orderBody)
			req.Body = unreadable{t}
			change(req)
			assert.GreaterOrEqual(t, r.serve(t, req).Code, 400)
		})
	}
}

// unreadable is a body that must not be read.
type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the handler must not read the body")
	return 0, errors.New("unreadable")
}

func (unreadable) Close() error { return nil }

func TestNewHandlerRejectsInvalidConfig(t *testing.T) {
	t.Parallel()
	for text, change := range map[string]func(*webhook.HandlerConfig){
		"Environment":                 func(c *webhook.HandlerConfig) { c.Environment = "us/" },
		"Secrets is empty":            func(c *webhook.HandlerConfig) { c.Secrets = nil },
		"Secrets[1] is empty":         func(c *webhook.HandlerConfig) { c.Secrets[1] = api.Secret{} },
		"Secrets[0] begins or ends":   func(c *webhook.HandlerConfig) { c.Secrets[0] = api.NewSecret(c.Secrets[0].Reveal() + "\n") },
		"Secrets[1] equals Challenge": func(c *webhook.HandlerConfig) { c.Secrets[1] = api.NewSecret(challenge) },
		"Challenge is empty":          func(c *webhook.HandlerConfig) { c.Challenge = api.Secret{} },
		"Challenge begins or ends":    func(c *webhook.HandlerConfig) { c.Challenge = api.NewSecret(" x") },
		"Inbox is missing":            func(c *webhook.HandlerConfig) { c.Inbox = nil },
		"Tolerance is negative":       func(c *webhook.HandlerConfig) { c.Tolerance = -1 },
		"MaxBody is negative":         func(c *webhook.HandlerConfig) { c.MaxBody = -1 },
		"BodyTimeout is negative":     func(c *webhook.HandlerConfig) { c.BodyTimeout = -1 },
		"AcceptTimeout is negative":   func(c *webhook.HandlerConfig) { c.AcceptTimeout = -1 },
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			c := webhook.HandlerConfig{Environment: sandbox, Challenge: api.NewSecret(challenge), Inbox: inboxFunc(nil)}
			c.Secrets = append(c.Secrets, api.NewSecret(secret), api.NewSecret(oldSecret))
			change(&c)
			_, err := webhook.NewHandler(c)
			require.ErrorContains(t, err, text)
			assert.NotContains(t, err.Error(), secret)
			assert.NotContains(t, err.Error(), challenge)
		})
	}
}

func TestHandlerEncodesChallenge(t *testing.T) {
	t.Parallel()
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: sandbox, Secrets: []api.Secret{api.NewSecret(secret)}, Challenge: api.NewSecret(`a"b\c`), Inbox: inboxFunc(nil),
		Now: func() time.Time { return now },
	})
	require.NoError(t, err)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, request(http.MethodPost, sign(secret, now, ""), ""))
	assert.JSONEq(t, `{"challenge":"a\"b\\c"}`, w.Body.String())
}
