package webhook_test

import (
	"bytes"
	"crypto/hmac"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook"
)

// The oracle of the fuzz tests matches headers with patterns instead of parsing them.
var (
	stampPattern = regexp.MustCompile(`(?:^|,)[ \t]*t=([^,]*?)[ \t]*(?:,|$)`)
	valuePattern = regexp.MustCompile(`v1=([0-9a-fA-F]{64})[ \t]*(?:,|$)`)
)

// signed reports whether header contains a signature of body with secret, at most 5 minutes from
// now.
func signed(header, body string) bool {
	stamp := stampPattern.FindStringSubmatch(header)
	if stamp == nil {
		return false
	}
	seconds, err := strconv.ParseInt(stamp[1], 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return false
	}
	want, _ := hex.DecodeString(mac(secret, stamp[1], body))
	for _, value := range valuePattern.FindAllStringSubmatch(header, -1) {
		got, _ := hex.DecodeString(value[1])
		if hmac.Equal(got, want) {
			return true
		}
	}
	return false
}

func headers(f *testing.F) []string {
	f.Helper()
	good := sign(secret, now, orderBody)
	stamp, value, _ := strings.Cut(good, ",")
	return []string{
		good, value + "," + stamp, stamp + ", " + value, stamp + ",v1=" + strings.Repeat("0", 64) + "," + value,
		stamp + "," + value + "," + stamp, "t=1," + good, stamp + "000," + value, stamp + strings.Repeat(",v1=00", 14_000),
		good + ",", "," + good, good + ",v2=x", strings.ToUpper(good), "t=,v1=", "t", "=", "", "v1=" + value, sign(oldSecret, now, orderBody),
		sign(secret, now.Add(-time.Hour), orderBody), sign(secret, now, ""),
	}
}

// FuzzSignatureHeader checks that the verifier never panics, and that it accepts a header only if
// the oracle does.
func FuzzSignatureHeader(f *testing.F) {
	for _, header := range headers(f) {
		f.Add(header)
	}
	for _, form := range []string{"t=T,v1=S", "v1=S , t=T", "t=T,v1=00,v1=S", "t=T,t=T,v1=S", "t =T,v1=S", "t=0T,v1=S", "t=T,v1=SS"} {
		f.Add(form)
	}
	v := newVerifier(f, now, api.NewSecret(secret))
	stamp := strconv.FormatInt(now.Unix(), 10)
	// T and S are placeholders for a valid timestamp and signature, so that the fuzzer varies the
	// form of otherwise valid headers.
	right := strings.NewReplacer("T", stamp, "S", mac(secret, stamp, orderBody))
	f.Fuzz(func(t *testing.T, header string) {
		if len(header) < 1024 {
			header = right.Replace(header)
		}
		if v.Verify(header, []byte(orderBody)) == nil {
			assert.True(t, signed(header, orderBody), "accepted %q", header)
			assert.LessOrEqual(t, len(header), 1024)
		}
	})
}

// FuzzHandler checks that the handler never panics, and with a working inbox never responds with
// 410 or 5xx. It must respond with 200 and the challenge only to signed requests, and store only
// their events.
func FuzzHandler(f *testing.F) {
	for _, header := range headers(f) {
		f.Add("POST", header, []byte(orderBody), int64(len(orderBody)), false)
	}
	for _, body := range []string{"", orderBody, `{"event":{}}`, `{"id":1,"type":2}`, "[", "\x00", `{"event_payload":` + orderBody + `}`} {
		f.Add("POST", "", []byte(body), int64(-1), true)
	}
	f.Add("GET", "", []byte(nil), int64(0), true)
	f.Fuzz(func(t *testing.T, method, header string, body []byte, length int64, resign bool) {
		if resign {
			header = sign(secret, now, string(body))
		}
		r := newFixture(t, func(c *webhook.HandlerConfig) { c.Secrets = []api.Secret{api.NewSecret(secret)} })
		req := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		req.Method, req.ContentLength = method, length
		if header != "" {
			req.Header.Set(webhook.SignatureHeader, header)
		}
		w := r.serve(t, req) // checks the common properties of responses
		assert.Contains(t, []int{200, 400, 401, 405, 413}, w.Code)
		if w.Code == http.StatusOK {
			require.True(t, signed(header, string(body)))
			require.Equal(t, http.MethodPost, method)
		}
		if len(r.accepted) > 0 {
			assert.Equal(t, http.StatusOK, w.Code)
			assert.NotEmpty(t, r.accepted[0].Key.EventID)
			assert.Equal(t, body, r.accepted[0].Body)
		}
	})
}
