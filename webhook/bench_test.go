package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// benchBody is an event of about 2 KB.
var benchBody = strings.Replace(orderBody, "R100", strings.Repeat(`R100","note":"synthetic text, take with food`, 42), 1)

// floorVerify is the check written by hand with crypto/hmac, encoding/hex and a
// constant-time comparison: everything the scheme asks for and nothing else.
func floorVerify(body []byte, header string, key []byte, now time.Time) error {
	var timestamp string
	var signatures [4][sha256.Size]byte
	n := 0
	for rest := header; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, ",")
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case !ok:
			return errors.New("malformed header")
		case name == "t":
			timestamp = value
		case name == "v1" && n < len(signatures) && len(value) == 2*sha256.Size:
			if _, err := hex.Decode(signatures[n][:], []byte(value)); err == nil {
				n++
			}
		}
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return err
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > 5*time.Minute || age < -5*time.Minute {
		return errors.New("outside tolerance")
	}
	m := hmac.New(sha256.New, key)
	var prefix [32]byte
	m.Write(append(append(prefix[:0], timestamp...), '.'))
	m.Write(body)
	var sum [sha256.Size]byte
	want := m.Sum(sum[:0])
	good := false
	for i := range n {
		good = hmac.Equal(want, signatures[i][:]) || good
	}
	if !good {
		return errors.New("no match")
	}
	return nil
}

type floorEnvelope struct {
	Event struct {
		ID            string          `json:"id"`
		Type          string          `json:"type"`
		CreatedAt     time.Time       `json:"created_at"`
		ClinicID      string          `json:"clinic_id"`
		IntegrationID string          `json:"integration_id"`
		Data          json.RawMessage `json:"data"`
	} `json:"event"`
}

func measure(b *testing.B, name string, f func() error) {
	b.Helper()
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := f(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkVerify measures the check of a signature beside its floor.
func BenchmarkVerify(b *testing.B) {
	body, header, key := []byte(benchBody), sign(secret, time.Now(), benchBody), []byte(secret)
	verifier, err := webhook.NewVerifier(webhook.VerifierConfig{Secrets: []api.Secret{api.NewSecret(secret)}})
	require.NoError(b, err)
	measure(b, "floor", func() error { return floorVerify(body, header, key, time.Now()) })
	measure(b, "Verifier", func() error { return verifier.Verify(header, body) })
}

// BenchmarkVerifyAndParse measures the check and what is needed to accept an
// event, beside a floor on encoding/json.
func BenchmarkVerifyAndParse(b *testing.B) {
	body, header, key := []byte(benchBody), sign(secret, time.Now(), benchBody), []byte(secret)
	verifier, err := webhook.NewVerifier(webhook.VerifierConfig{Secrets: []api.Secret{api.NewSecret(secret)}})
	require.NoError(b, err)
	measure(b, "floor", func() error {
		if err := floorVerify(body, header, key, time.Now()); err != nil {
			return err
		}
		var envelope floorEnvelope
		return json.Unmarshal(body, &envelope)
	})
	measure(b, "Verifier+Parse", func() error {
		if err := verifier.Verify(header, body); err != nil {
			return err
		}
		_, err := events.Parse(body)
		return err
	})
}

// BenchmarkHandler measures a whole request, without the server and with an
// inbox that stores nothing, beside a handler written by hand that has none.
func BenchmarkHandler(b *testing.B) {
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: sandbox, Secrets: []api.Secret{api.NewSecret(secret)}, Challenge: api.NewSecret(challenge),
		Inbox: inboxFunc(func(context.Context, webhook.Delivery) (webhook.Receipt, error) { return webhook.Receipt{}, nil }),
	})
	require.NoError(b, err)
	key, answer := []byte(secret), []byte(`{"challenge":"`+challenge+`"}`)
	floor := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil || floorVerify(body, r.Header.Get(webhook.SignatureHeader), key, time.Now()) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var envelope floorEnvelope
		if json.Unmarshal(body, &envelope) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	})
	serve := func(h http.Handler) func() error {
		req := request(http.MethodPost, sign(secret, time.Now(), benchBody), "")
		req.ContentLength = int64(len(benchBody))
		reader := strings.NewReader(benchBody)
		w := &discard{header: http.Header{}}
		return func() error {
			reader.Reset(benchBody)
			req.Body = io.NopCloser(reader)
			*w = discard{header: w.header}
			clear(w.header)
			h.ServeHTTP(w, req)
			if w.status != 0 && w.status != http.StatusOK || w.written == 0 {
				return errors.New("not acknowledged")
			}
			return nil
		}
	}
	measure(b, "floor", serve(floor))
	measure(b, "Handler", serve(handler))
}

// discard is a response that is thrown away.
type discard struct {
	header          http.Header
	status, written int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(b []byte) (int, error) { d.written += len(b); return len(b), nil }
