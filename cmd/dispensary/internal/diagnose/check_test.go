package diagnose_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/diagnose"
	"github.com/dispensary-go/dispensary/webhook"
)

const (
	secret    = "whsec-canary"
	challenge = "challenge-canary"
	sent      = `{"id":"evt-1","type":"patient.created","data":{"note":"a <b> \"c\", d: e","list":[1,2]}}`
)

var at = time.Unix(1_790_000_000, 0)

// signed returns a saved request whose body is signed with key.
func signed(key, body string) string {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(timestamp + "." + body))
	return fmt.Sprintf("POST /webhooks HTTP/1.1\r\nHost: ehr.example\r\nSVC-Signature: t=%s,v1=%s\r\nContent-Length: %d\r\n\r\n%s",
		timestamp, hex.EncodeToString(mac.Sum(nil)), len(body), body)
}

func check(t *testing.T, saved string, later time.Duration) diagnose.Report {
	t.Helper()
	delivery, err := diagnose.Parse([]byte(saved))
	require.NoError(t, err)
	report, err := diagnose.Check(delivery, diagnose.Config{
		Secrets: []api.Secret{api.NewSecret("other"), api.NewSecret(secret)}, Challenge: api.NewSecret(challenge), ReceivedAt: at.Add(later),
	})
	require.NoError(t, err)
	for _, private := range []string{secret, challenge, "evt-1", "note"} {
		assert.NotContains(t, report.Detail, private)
	}
	return report
}

func TestCheckReportsReason(t *testing.T) {
	t.Parallel()
	var indented bytes.Buffer
	require.NoError(t, json.Indent(&indented, []byte(sent), "", "  "))
	for name, c := range map[string]struct {
		saved  string
		later  time.Duration
		reason diagnose.Reason
		detail string
	}{
		"valid":              {signed(secret, sent), time.Minute, diagnose.ReasonValid, ""},
		"line feeds alone":   {strings.ReplaceAll(signed(secret, sent), "\r\n", "\n"), 0, diagnose.ReasonValid, ""},
		"no signature":       {strings.Replace(signed(secret, sent), "SVC-Signature", "X", 1), 0, diagnose.ReasonNoSignature, "SVC-Signature"},
		"malformed":          {strings.Replace(signed(secret, sent), "v1=", "v1=x", 1), 0, diagnose.ReasonMalformed, "64 hex digits"},
		"twice":              {strings.Replace(signed(secret, sent), "Host:", "SVC-Signature:", 1), 0, diagnose.ReasonMalformed, "more than once"},
		"too old":            {signed(secret, sent), 12 * time.Minute, diagnose.ReasonTooOld, "made 12m0s before the delivery arrived: 7m0s over"},
		"too new":            {signed(secret, sent), -6 * time.Minute, diagnose.ReasonTooNew, "made 6m0s after the delivery arrived: 1m0s over"},
		"swapped":            {signed(challenge, sent), 0, diagnose.ReasonChallenge, "swapped"},
		"wrong secret":       {signed("another", sent), 0, diagnose.ReasonWrongSecret, "another application or environment"},
		"another body":       {strings.Replace(signed(secret, sent), "evt-1", "evt-2", 1), 0, diagnose.ReasonWrongSecret, "in an unknown way"},
		"cut off":            {strings.TrimSuffix(signed(secret, sent), `]}}`), 0, diagnose.ReasonBodyChanged, "Content-Length is 88"},
		"white space":        {signed(secret, sent) + "\n", 0, diagnose.ReasonBodyChanged, "added at its end"},
		"lost line break":    {strings.TrimSuffix(signed(secret, sent+"\n"), "\n"), 0, diagnose.ReasonBodyChanged, "line break"},
		"byte order mark":    {strings.Replace(signed(secret, sent), sent, "\xef\xbb\xbf"+sent, 1), 0, diagnose.ReasonBodyChanged, "byte order mark"},
		"indented":           {strings.Replace(signed(secret, sent), sent, indented.String(), 1), 0, diagnose.ReasonBodyChanged, "again as JSON"},
		"was indented":       {strings.Replace(signed(secret, indented.String()), indented.String(), sent, 1), 0, diagnose.ReasonBodyChanged, "again as JSON"},
		"was spaced":         {strings.Replace(signed(secret, `{"a": "b,\\", "c": 1}`), `{"a": "b,\\", "c": 1}`, `{"a":"b,\\","c":1}`, 1), 0, diagnose.ReasonBodyChanged, "again as JSON"},
		"escaped":            {strings.Replace(signed(secret, sent), "<b>", `\u003cb\u003e`, 1), 0, diagnose.ReasonBodyChanged, "again as JSON"},
		"was escaped":        {strings.Replace(signed(secret, strings.Replace(sent, "<b>", `\u003cb\u003e`, 1)), `\u003cb\u003e`, "<b>", 1), 0, diagnose.ReasonBodyChanged, "again as JSON"},
		"carriage returns":   {strings.Replace(signed(secret, "{\n}"), "{\n}", "{\r\n}", 1), 0, diagnose.ReasonBodyChanged, "from LF to CR LF"},
		"changed, and stale": {signed(secret, sent) + "\n", time.Hour, diagnose.ReasonBodyChanged, "added at its end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := check(t, c.saved, c.later)
			assert.Equal(t, c.reason, report.Reason, report.Detail)
			assert.Contains(t, report.Detail, c.detail)
			if c.reason != diagnose.ReasonNoSignature && c.reason != diagnose.ReasonMalformed {
				assert.True(t, at.Equal(report.SignedAt))
				assert.Equal(t, c.later, report.Age)
			}
		})
	}
}

func TestParseReadsChunksAndParts(t *testing.T) {
	t.Parallel()
	request := signed(secret, sent)
	head, _, _ := strings.Cut(request, "Content-Length")
	chunked := head + "Transfer-Encoding: chunked\r\n\r\n" + strconv.FormatInt(int64(len(sent)), 16) + "\r\n" + sent + "\r\n0\r\n\r\n"
	assert.Equal(t, diagnose.ReasonValid, check(t, chunked, 0).Reason)
	_, err := diagnose.Parse([]byte(head + "Transfer-Encoding: chunked\r\n\r\n" + sent))
	require.ErrorContains(t, err, "chunked")

	_, headers, _ := strings.Cut(head, "\r\n")
	delivery, err := diagnose.ParseParts([]byte(headers), []byte(sent))
	require.NoError(t, err)
	assert.Equal(t, -1, delivery.Announced)
	report, err := diagnose.Check(delivery, diagnose.Config{Secrets: []api.Secret{api.NewSecret(secret)}})
	require.NoError(t, err)
	assert.NotEqual(t, diagnose.ReasonWrongSecret, report.Reason, "without ReceivedAt, only the age may be wrong")
	_, err = diagnose.Check(delivery, diagnose.Config{})
	require.ErrorContains(t, err, "Secrets")
}

func TestParseRejectsInvalidRequest(t *testing.T) {
	t.Parallel()
	for _, saved := range []string{"", "canary", "POST / HTTP/1.1", "POST / HTTP/1.1\r\nHost: canary\r\n", sent, "POST / HTTP/1.1\ncanary\n\n{}"} {
		_, err := diagnose.Parse([]byte(saved))
		require.Error(t, err, saved)
		assert.NotContains(t, err.Error(), "canary")
	}
}

// A saved file is untrusted. Check must accept the same deliveries as the verifier.
func FuzzParse(f *testing.F) {
	f.Add([]byte(signed(secret, sent)))
	f.Add([]byte("POST / HTTP/1.1\nTransfer-Encoding: chunked\n\n5\nhello\n0\n\n"))
	f.Add([]byte("POST / HTTP/1.1\nSVC-Signature: t=1,v1=" + strings.Repeat("0", 64) + "\n\n{\"a\":[1]}\n"))
	f.Fuzz(func(t *testing.T, saved []byte) {
		delivery, err := diagnose.Parse(saved)
		if err != nil {
			return
		}
		report, err := diagnose.Check(delivery, diagnose.Config{Secrets: []api.Secret{api.NewSecret(secret)}, Challenge: api.NewSecret(challenge), ReceivedAt: at})
		require.NoError(t, err)
		verifier, err := webhook.NewVerifier(webhook.VerifierConfig{Secrets: []api.Secret{api.NewSecret(secret)}, Now: func() time.Time { return at }})
		require.NoError(t, err)
		values := delivery.Header.Values(webhook.SignatureHeader)
		accepted := len(values) == 1 && verifier.Verify(values[0], delivery.Body) == nil
		assert.Equal(t, accepted, report.Reason == diagnose.ReasonValid)
	})
}
