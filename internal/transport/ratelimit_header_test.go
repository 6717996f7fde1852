package transport

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/api"
)

func TestFeedbackOfHeaders(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		header string
		want   api.LimitFeedback
	}{
		"none":            {"", api.LimitFeedback{}},
		"draft":           {"RateLimit: \"default\";r=0;t=30\nRateLimit-Policy: \"default\";q=100;w=60", api.LimitFeedback{Pause: 30 * time.Second, Requests: 100, Window: time.Minute}},
		"something left":  {"RateLimit: \"default\";r=1;t=30", api.LimitFeedback{}},
		"several":         {"RateLimit: \"a\";r=0;t=3, \"b\";r=0;t=7\nRateLimit-Policy: \"a\";q=10;w=1, \"b\";q=100;w=60", api.LimitFeedback{Pause: 7 * time.Second, Requests: 100, Window: time.Minute}},
		"early draft":     {"RateLimit: limit=100, remaining=0, reset=50", api.LimitFeedback{Pause: 50 * time.Second}},
		"earlier draft":   {"RateLimit-Limit: 100, 100;w=60\nRateLimit-Remaining: 0\nRateLimit-Reset: 4", api.LimitFeedback{Pause: 4 * time.Second, Requests: 100, Window: time.Minute}},
		"X- in seconds":   {"X-RateLimit-Limit: 100\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 9", api.LimitFeedback{Pause: 9 * time.Second}},
		"X- at a time":    {"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1800000005", api.LimitFeedback{Pause: 5 * time.Second}},
		"a time long ago": {"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1700000005", api.LimitFeedback{}},
		"no reset":        {"X-RateLimit-Remaining: 0", api.LimitFeedback{}},
		"no number":       {"RateLimit: r=x;t=y\nRateLimit-Policy: q=-1;w=5\nX-RateLimit-Remaining: zero", api.LimitFeedback{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			header := headerOf(test.header)
			header.Set("Date", time.Unix(1_800_000_000, 0).UTC().Format(http.TimeFormat))
			assert.Equal(t, test.want, feedback(header))
		})
	}
}

func headerOf(lines string) http.Header {
	header := http.Header{}
	for line := range strings.Lines(lines) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		header.Add(name, value)
	}
	return header
}

func FuzzFeedback(f *testing.F) {
	f.Add(`"default";r=0;t=30`, `"default";q=100;w=60`, "0", "1800000005")
	f.Add("limit=100, remaining=0, reset=50", "100, 100;w=60", "0", "99999999999999999999")
	f.Fuzz(func(t *testing.T, limit, policy, remaining, reset string) {
		got := feedback(http.Header{
			"Ratelimit": {limit}, "Ratelimit-Policy": {policy}, "X-Ratelimit-Remaining": {remaining}, "X-Ratelimit-Reset": {reset},
		})
		assert.GreaterOrEqual(t, got.Pause, time.Duration(0))
		assert.LessOrEqual(t, got.Pause, 24*time.Hour)
		assert.GreaterOrEqual(t, got.Requests, 0)
		assert.Equal(t, got.Requests > 0, got.Window > 0)
	})
}
