package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
)

var sandbox = api.USSandbox

// answers is a transport without sockets. It numbers the requests and responds to each.
type answers struct {
	calls  atomic.Int32
	answer func(call int, r *http.Request) (*http.Response, error)
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return a.answer(int(a.calls.Add(1)), r)
}

// reply returns a response. headers are pairs of name and value.
func reply(status int, body string, headers ...string) *http.Response {
	h := http.Header{"X-Request-Id": {"req-1"}}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{
		StatusCode: status, Status: fmt.Sprint(status), Header: h,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// says is a transport that always returns the same response.
func says(status int, body string, headers ...string) *answers {
	return &answers{answer: func(int, *http.Request) (*http.Response, error) { return reply(status, body, headers...), nil }}
}

// static is a token source that cannot refresh.
type static struct{ token api.AccessToken }

func (s static) Token(context.Context) (api.AccessToken, error) { return s.token, nil }

func validToken() api.AccessToken {
	return api.AccessToken{Secret: api.NewSecret("token-canary"), Environment: sandbox}
}

// view returns a view of a client.
func view(t *testing.T, client *Client, change func(*Config)) *Client {
	t.Helper()
	made, err := client.With(func(c *Config) error { change(c); return nil })
	require.NoError(t, err)
	return made
}

// newTestClient returns a client for a site that no network reaches.
func newTestClient(t *testing.T, transport http.RoundTripper, change ...func(*Config)) *Client {
	t.Helper()
	config := Config{
		Site: api.Site{
			Environment: sandbox,
			BaseURL:     "https://platform.example/api",
			AuthURL:     "https://auth.example",
		},
		Transport: transport,
		Tokens:    static{validToken()},
		UserAgent: "test",
	}
	for _, c := range change {
		c(&config)
	}
	client, err := New(config)
	require.NoError(t, err)
	return client
}

// thing is a resource for tests.
type thing struct {
	ID   string `json:"id"`
	Size int    `json:"size"`
}

// failureOf returns err as the error of a call.
func failureOf(t *testing.T, err error) *api.Error {
	t.Helper()
	var failure *api.Error
	require.ErrorAs(t, err, &failure)
	return failure
}

// texts returns all printed forms of an error.
func texts(err error) []string {
	forms := []string{err.Error()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		forms = append(forms, fmt.Sprintf(verb, err))
	}
	for wrapped := err; wrapped != nil; wrapped = errors.Unwrap(wrapped) {
		forms = append(forms, wrapped.Error(), fmt.Sprintf("%+v", wrapped), fmt.Sprintf("%#v", wrapped))
	}
	var log bytes.Buffer
	logTo(&log).Error("failed", "err", err)
	return append(forms, log.String())
}
