package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook"
)

func newVerifier(t testing.TB, at time.Time, secrets ...api.Secret) *webhook.Verifier {
	t.Helper()
	v, err := webhook.NewVerifier(webhook.VerifierConfig{Secrets: secrets, Now: func() time.Time { return at }})
	require.NoError(t, err)
	return v
}

// TestVerifierAgreesWithOpenSSL checks signatures made by other programs. See testdata/signatures.
func TestVerifierAgreesWithOpenSSL(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../testdata/signatures/vectors.json")
	require.NoError(t, err)
	var vectors []struct {
		Name, Verdict, Secret, Header string
		Timestamp                     int64
		Body                          []byte `json:"body_base64"`
	}
	require.NoError(t, json.Unmarshal(file, &vectors))
	require.GreaterOrEqual(t, len(vectors), 17)
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			err := newVerifier(t, time.Unix(v.Timestamp, 0), api.NewSecret(v.Secret)).Verify(v.Header, v.Body)
			switch v.Verdict {
			case "valid":
				require.NoError(t, err)
				stamp, ours, _ := strings.Cut(webhook.Sign(api.NewSecret(v.Secret), time.Unix(v.Timestamp, 0), v.Body), ",")
				if strings.HasPrefix(v.Header, stamp+",") {
					assert.Contains(t, strings.ToLower(v.Header), ours)
				}
			case "mismatch":
				require.ErrorIs(t, err, webhook.ErrSignatureMismatch)
			default:
				t.Fatalf("verdict %q", v.Verdict)
			}
		})
	}
}

func TestVerifierParsesHeaderStrictly(t *testing.T) {
	t.Parallel()
	stamp := strconv.FormatInt(now.Unix(), 10)
	good := mac(secret, stamp, orderBody)
	v := newVerifier(t, now, api.NewSecret(secret))
	for header, want := range map[string]string{
		"t=" + stamp + ",v1=" + good:                                    "",
		"v1=" + good + ",t=" + stamp:                                    "",
		"t=" + stamp + ", v1=" + good:                                   "",
		" t=" + stamp + " ,\tv1=" + good + "\t":                         "",
		"t=" + stamp + ",v1=" + strings.ToUpper(good):                   "",
		"t=" + stamp + ",v1=" + good + ",v2=x,k=a=b,v0=":                "",
		"t=" + stamp + ",v1=" + good + ",v1=" + strings.Repeat("0", 64): "",
		"t=" + stamp + strings.Repeat(",v1="+good, 8):                   "",
		"t=" + stamp + strings.Repeat(",v1="+good, 9):                   "more than 8 v1 values",
		"t=" + stamp + ",v1=" + good + strings.Repeat(",a=b", 240):      "longer than 1024 bytes",
		"v1=" + good:                                 "t is missing",
		"t=" + stamp:                                 "v1 is missing",
		"t=" + stamp + ",v2=" + good:                 "v1 is missing",
		"t=,v1=" + good:                              "t is not a whole number",
		"t= " + stamp + ",v1=" + good:                "t is not a whole number",
		"T=" + stamp + ",v1=" + good:                 "t is missing",
		"t=+" + stamp[1:] + ",v1=" + good:            "t is not a whole number",
		"t=" + stamp + "000,v1=" + good:              "13 digits, as in milliseconds",
		"t=0" + stamp + ",v1=" + good:                "more than the 10 digits",
		"t=" + stamp + ",t=" + stamp + ",v1=" + good: "t is repeated",
		"t=" + stamp + ",v1=" + good[:62]:            "v1 is not 64 hex digits",
		"t=" + stamp + ",v1=" + good + "00":          "v1 is not 64 hex digits",
		"t=" + stamp + ",v1=" + good[:63] + "g":      "v1 is not 64 hex digits",
		"t=" + stamp + ",v1=" + good + ",v1=short":   "v1 is not 64 hex digits",
		"t=" + stamp + ",v1=" + good + ",":           "",
		"t=" + stamp + ";v1=" + good:                 "t is not a whole number",
		"t=" + stamp + ",=" + good:                   "an element is not name=value",
		good:                                         "an element is not name=value",
		" ":                                          "t is missing",
	} {
		t.Run(header, func(t *testing.T) {
			t.Parallel()
			err := v.Verify(header, []byte(orderBody))
			if want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, webhook.ErrSignatureMalformed)
			require.ErrorContains(t, err, want)
		})
	}
	require.ErrorIs(t, v.Verify("", []byte(orderBody)), webhook.ErrSignatureMissing)
}

func TestVerifierUsesTimestampAsReceived(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, time.Unix(946684800, 0), api.NewSecret(secret))
	require.NoError(t, v.Verify("t=0946684800,v1="+mac(secret, "0946684800", orderBody), []byte(orderBody)))
	require.ErrorIs(t, v.Verify("t=0946684800,v1="+mac(secret, "946684800", orderBody), []byte(orderBody)), webhook.ErrSignatureMismatch)
}

func TestNewVerifierRejectsInvalidConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []webhook.VerifierConfig{
		{}, {Secrets: []api.Secret{{}}}, {Secrets: []api.Secret{api.NewSecret(secret), api.NewSecret(" ")}},
		{Secrets: []api.Secret{api.NewSecret(secret + "\n")}}, {Secrets: []api.Secret{api.NewSecret(secret)}, Tolerance: -time.Second},
	} {
		v, err := webhook.NewVerifier(c)
		require.Error(t, err)
		assert.Nil(t, v)
		assert.NotContains(t, err.Error(), secret)
	}
}

func TestVerifierSupportsConcurrentUse(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, now, api.NewSecret(oldSecret), api.NewSecret(secret))
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			body := orderBody + strings.Repeat(" ", i)
			header := sign(secret, now, body)
			for range 200 {
				assert.NoError(t, v.Verify(header, []byte(body)))
				assert.ErrorIs(t, v.Verify(header, []byte(body+" ")), webhook.ErrSignatureMismatch)
			}
		})
	}
	group.Wait()
}

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
