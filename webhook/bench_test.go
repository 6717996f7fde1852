package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook"
)

// benchBody is an event of about 2 KB.
var benchBody = strings.Replace(orderBody, "R100", strings.Repeat(`R100","note":"synthetic text, take with food`, 42), 1)

// floorVerify is the minimal check, written by hand with crypto/hmac, encoding/hex and a
// constant-time comparison.
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

// BenchmarkVerify compares the verifier with the minimal check.
func BenchmarkVerify(b *testing.B) {
	body, header, key := []byte(benchBody), sign(secret, time.Now(), benchBody), []byte(secret)
	verifier, err := webhook.NewVerifier(webhook.VerifierConfig{Secrets: []api.Secret{api.NewSecret(secret)}})
	require.NoError(b, err)
	measure(b, "floor", func() error { return floorVerify(body, header, key, time.Now()) })
	measure(b, "Verifier", func() error { return verifier.Verify(header, body) })
}
