// Package receivertest contains shared helpers for the tests and benchmarks of inboxes. They
// create events and signed requests like those of the platform, send them from many senders,
// and kill receivers.
package receivertest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

const (
	// Secret and Challenge are the webhook secret and the challenge token of the endpoint.
	Secret    = "whsec_test_0123456789abcdef"
	Challenge = "challenge-test-0123456789"

	// Canary is the name of each patient. Tests search for it in logs and other output that
	// must not contain patient data.
	Canary = "Zaphod-Inbox-Canary"
)

// Sandbox is the environment of all events.
var Sandbox = api.USSandbox

// KeyRing returns a key ring with a new key.
func KeyRing(t testing.TB) *seal.KeyRing {
	t.Helper()
	key, err := seal.GenerateKey("test")
	require.NoError(t, err)
	ring, err := seal.NewKeyRing(key)
	require.NoError(t, err)
	return ring
}

// FixedKeyRing returns a key ring that is the same in every process of a test.
func FixedKeyRing() (*seal.KeyRing, error) {
	return seal.ParseKeyRing(api.NewSecret("kill:QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="))
}

// Succeed is a handler without effect. It never fails.
func Succeed(context.Context, events.Event) error { return nil }

// Hold is a handler that waits until its context ends, and returns the error of the context.
func Hold(ctx context.Context, _ events.Event) error {
	<-ctx.Done()
	return ctx.Err()
}

// patients is the default number of patients.
const patients = 500

// Body returns event number n, about 2 KB long, for one of 500 patients.
func Body(n int, integration string) []byte { return body(n, n%patients, integration) }

func body(n, patient int, integration string) []byte {
	return fmt.Appendf(nil, `{"event":{"id":"evt_%d","type":"patient.updated","created_at":"2026-11-20T10:%02d:%02dZ","clinic_id":"cl_1","integration_id":%q,`+
		`"data":{"patient":{"id":"pa_%d","first_name":%q,"note":"%01700d"}}}}`,
		n, n/60%60, n%60, integration, patient, Canary, n)
}

// number is the number of the last event. It gives each event of the process a different ID.
var number atomic.Int64

// NewDelivery returns a delivery of a new event, for one of 500 patients.
func NewDelivery() webhook.Delivery { return NewDeliveryAmong(patients) }

// NewDeliveryAmong returns a delivery of a new event, for one of the given number of patients.
func NewDeliveryAmong(patients int) webhook.Delivery {
	n := int(number.Add(1))
	return webhook.Delivery{
		Key:  webhook.Key{Environment: Sandbox, EventID: fmt.Sprint("evt_", n), IntegrationID: "in_1"},
		Type: events.TypePatientUpdated, ClinicID: "cl_1", ReceivedAt: time.Now(), CreatedAt: time.Now(), Body: body(n, n%patients, "in_1"),
	}
}

// Request returns a signed request like that of the platform. It uses only the standard library,
// so it is independent of the signing code under test.
func Request(address string, body []byte) (*http.Request, error) {
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(Secret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	request, err := http.NewRequest(http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("SVC-Signature", "t="+timestamp+",v1="+hex.EncodeToString(mac.Sum(nil)))
	return request, nil
}

// Accept sends a new event to an inbox and returns its delivery.
func Accept(t testing.TB, inbox webhook.Inbox) webhook.Delivery {
	t.Helper()
	d := NewDelivery()
	receipt, err := inbox.Accept(t.Context(), d)
	require.NoError(t, err)
	require.False(t, receipt.Duplicate)
	return d
}

// Observe returns a channel that receives every finished attempt of the work. It replaces the
// observer's AttemptEnd.
func Observe(w *webhook.Work) <-chan webhook.Attempt {
	made := make(chan webhook.Attempt, 1000)
	w.Observer.AttemptEnd = func(_ context.Context, a webhook.Attempt) { made <- a }
	return made
}

// Until waits until gate is closed or the context of an attempt ends. It returns the error of
// the context in the second case.
func Until(ctx context.Context, gate <-chan struct{}) error {
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Loggers returns a logger that writes each record as text and as JSON, at any level and with
// its source.
func Loggers(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelDebug - 100, AddSource: true}
	return slog.New(slog.NewMultiHandler(slog.NewTextHandler(w, options), slog.NewJSONHandler(w, options)))
}

// Say prints a value with every verb of fmt and with [Loggers].
func Say(w io.Writer, v any) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%t"} {
		fmt.Fprintf(w, verb+"\n", v)
	}
	Loggers(w).Info("said", "value", v)
}
