package dispensaryotel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// Events arrive well and badly, at an inbox that takes them and one that does not,
// and their handler fails with all it knows. Nothing but id and type is recorded.
func TestNothingOfAnEventLeaks(t *testing.T) {
	t.Parallel()
	heard := &wire{words: map[string]bool{}}
	r := newReceiver(t, func(ctx context.Context, e events.Event) error {
		if webhook.HandlingFrom(ctx).Attempt == 1 {
			return fmt.Errorf("%s: %w", e.Data, errors.New(string(e.Data)))
		}
		panic(string(e.Data))
	}, nil)
	mount := r.handler
	var body []byte
	r.handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ = io.ReadAll(q.Body)
		q.Body = io.NopCloser(bytes.NewReader(body))
		mount.ServeHTTP(w, q)
	})
	event := r.deliver(t, func(p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Patients.Register(model.NewPatient{FirstName: "Zaphod", LastName: "Marked", Email: "zaphod@example.org"})
		return event, err
	})
	results := []webhook.Result{(<-r.attempts).Result, (<-r.attempts).Result} // of two workers, in any order
	assert.ElementsMatch(t, []webhook.Result{webhook.ResultFailed, webhook.ResultDead}, results)

	forge := func(header string, body []byte) {
		q := httptest.NewRequest(http.MethodPost, "/webhooks?patient=Zaphod", bytes.NewReader(body))
		q.Header.Set(webhook.SignatureHeader, header)
		mount.ServeHTTP(httptest.NewRecorder(), q)
	}
	forge("t=1,v1="+strings.Repeat("0", 64), body)
	forge("t=Zaphod", body)
	_, err := r.Inbox(inboxFunc(func(_ context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		return webhook.Receipt{}, errors.New(string(d.Body))
	})).Accept(t.Context(), webhook.Delivery{Type: events.PatientCreated, Body: body})
	require.Error(t, err)

	heard.listen(body)
	delivered, err := events.Parse(body)
	require.NoError(t, err)
	delete(heard.words, delivered.ID)
	delete(heard.words, delivered.IntegrationID) // which the log has
	require.Contains(t, heard.words, "zaphod@example.org")
	said := r.dump(t) + r.log.String()
	assert.Contains(t, said, event.ID)
	assert.Contains(t, said, "process patient.created")
	requireSilent(t, r.platform, said, heard.words)
}

// The lines of the log say of every request and every attempt which event it was,
// of what type, which attempt, and what became of it.
func TestLinesNameTheEvent(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, succeed, nil)
	event := r.deliver(t, anOrder)
	<-r.attempts
	var request, attempt string
	for line := range strings.Lines(r.log.String()) {
		switch {
		case strings.Contains(line, `"webhook accepted"`):
			request = line
		case strings.Contains(line, `"webhook event handled"`):
			attempt = line
		}
	}
	for _, want := range []string{`"event_id":"` + event.ID + `"`, `"event_type":"order.placed"`, `"environment":"us/sandbox"`, `"integration_id":`} {
		assert.Contains(t, request, want)
		assert.Contains(t, attempt, want)
	}
	assert.Contains(t, request, `"outcome":"accepted"`)
	assert.Contains(t, attempt, `"outcome":"handled"`)
	assert.Contains(t, attempt, `"attempt":1`)
}
