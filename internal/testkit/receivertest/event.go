// Package receivertest holds what the tests and benchmarks of all inboxes share:
// events that the platform could have sent, its requests, and a crowd that sends
// them.
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
	// Secret and Challenge are those of the endpoint.
	Secret    = "whsec_test_0123456789abcdef"
	Challenge = "challenge-test-0123456789"

	// Canary is a patient's name, to be looked for where no patient may be.
	Canary = "Zaphod-Inbox-Canary"
)

// Sandbox is the environment that events come from.
var Sandbox = api.USSandbox

// KeyRing makes a key ring with a new key.
func KeyRing(t testing.TB) *seal.KeyRing {
	t.Helper()
	key, err := seal.GenerateKey("test")
	require.NoError(t, err)
	ring, err := seal.NewKeyRing(key)
	require.NoError(t, err)
	return ring
}

// FixedKeyRing makes the ring that every process of a test has.
func FixedKeyRing() (*seal.KeyRing, error) {
	return seal.ParseKeyRing(api.NewSecret("kill:QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="))
}

// Succeed handles any event.
func Succeed(context.Context, events.Event) error { return nil }

// Hold is a handler that is busy until its context ends.
func Hold(ctx context.Context, _ events.Event) error {
	<-ctx.Done()
	return ctx.Err()
}

// patients is how many patients there are where nothing else is said.
const patients = 500

// Body makes the event with a number, of one of 500 patients, about 2 KB long.
func Body(n int, integration string) []byte { return body(n, n%patients, integration) }

func body(n, patient int, integration string) []byte {
	return fmt.Appendf(nil, `{"event":{"id":"evt_%d","type":"patient.updated","created_at":"2026-11-20T10:%02d:%02dZ","clinic_id":"cl_1","integration_id":%q,`+
		`"data":{"patient":{"id":"pa_%d","first_name":%q,"note":"%01700d"}}}}`,
		n, n/60%60, n%60, integration, patient, Canary, n)
}

// number makes every event of a run of the program another one.
var number atomic.Int64

// NewDelivery makes an event that was never seen before, of one of 500 patients.
func NewDelivery() webhook.Delivery { return NewDeliveryAmong(patients) }

// NewDeliveryAmong does of one of so many patients.
func NewDeliveryAmong(patients int) webhook.Delivery {
	n := int(number.Add(1))
	return webhook.Delivery{
		Key:  webhook.Key{Environment: Sandbox, EventID: fmt.Sprint("evt_", n), IntegrationID: "in_1"},
		Type: events.TypePatientUpdated, ClinicID: "cl_1", ReceivedAt: time.Now(), CreatedAt: time.Now(), Body: body(n, n%patients, "in_1"),
	}
}

// Request makes the platform's request, with the standard library alone.
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

// Accept gives a new event to an inbox.
func Accept(t testing.TB, inbox webhook.Inbox) webhook.Delivery {
	t.Helper()
	d := NewDelivery()
	receipt, err := inbox.Accept(t.Context(), d)
	require.NoError(t, err)
	require.False(t, receipt.Duplicate)
	return d
}

// Observe returns a channel with every attempt that is made at the work.
func Observe(w *webhook.Work) <-chan webhook.Attempt {
	made := make(chan webhook.Attempt, 1000)
	w.Observer.AttemptEnd = func(_ context.Context, a webhook.Attempt) { made <- a }
	return made
}

// Until waits until a gate opens, or the context of an attempt ends.
func Until(ctx context.Context, gate <-chan struct{}) error {
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Loggers writes every line in every form that a program may choose.
func Loggers(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelDebug - 100, AddSource: true}
	return slog.New(slog.NewMultiHandler(slog.NewTextHandler(w, options), slog.NewJSONHandler(w, options)))
}

// Say prints a value in every way.
func Say(w io.Writer, v any) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%t"} {
		fmt.Fprintf(w, verb+"\n", v)
	}
	Loggers(w).Info("said", "value", v)
}
