package transport

import (
	"bytes"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// endless is a body of any length. It counts the bytes read.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	e.read.Add(int64(len(b)))
	return len(b), nil
}

func (*endless) Close() error { return nil }

// endlessly responds to every request with a status and an endless body.
func endlessly(status int) (*responder, *endless) {
	body := new(endless)
	return &responder{respond: func(int, *http.Request) (*http.Response, error) { return body.reply(status) }}, body
}

func (e *endless) reply(status int) (*http.Response, error) {
	response := reply(status, "")
	response.Body, response.ContentLength = e, 1<<40
	return response, nil
}

func TestErrorBodyIsTruncated(t *testing.T) {
	t.Parallel()
	for _, status := range []int{404, 422, 429, 503} {
		transport, body := endlessly(status)
		err := create(t.Context(), newTestClient(t, transport))
		failure := failureOf(t, err)
		assert.Equal(t, status, failure.StatusCode)
		assert.Equal(t, api.OutcomeMaybeApplied, failure.Outcome)
		assert.True(t, failure.Untrusted)
		assert.Len(t, failure.Body(), maxErrorBody)
		assert.Less(t, body.read.Load(), int64(2*maxSmallBody))
	}
}

func TestTokenResponseHasSmallLimit(t *testing.T) {
	t.Parallel()
	for status, text := range map[int]string{200: "response is larger than the limit", 400: "400 Bad Request"} {
		transport, body := endlessly(status)
		_, err := One[thing](t.Context(), newTestClient(t, transport), Call{Operation: operation.OAuthToken})
		require.ErrorContains(t, err, text)
		assert.Less(t, body.read.Load(), int64(2*maxSmallBody))
	}
}

func TestContentLengthReservesLittleMemory(t *testing.T) {
	t.Parallel()
	var a lastResponse
	response := &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("{}")), ContentLength: maxBody}
	require.NoError(t, a.read(response, maxBody))
	assert.Equal(t, "{}", a.body.String())
	assert.Less(t, a.body.Cap(), 2*maxPooledBuffer)
}

func TestByteOrderMarkIsRemovedOnce(t *testing.T) {
	t.Parallel()
	const mark = "\ufeff"
	require.NoError(t, get(t.Context(), newTestClient(t, says(200, mark+`{"patient":{"id":"p1"}}`))))
	require.NoError(t, create(t.Context(), newTestClient(t, says(201, mark+`{"patient":{"id":"p1"}}`))))
	require.ErrorIs(t, get(t.Context(), newTestClient(t, says(200, mark+mark+`{"patient":{"id":"p1"}}`))), api.ErrBadResponse)

	client := newTestClient(t, says(422, mark+`{"error":["Email has already been taken"]}`))
	failure := failureOf(t, create(t.Context(), client))
	assert.Equal(t, api.OutcomeNotApplied, failure.Outcome)
	assert.Equal(t, []string{"Email has already been taken"}, failure.Messages())
	assert.Equal(t, `{"error":["Email has already been taken"]}`, string(failure.Body()))
}

func TestPoolKeepsNoHugeBuffer(t *testing.T) {
	t.Parallel()
	huge := bytes.NewBuffer(make([]byte, 0, maxPooledBuffer+1))
	(&lastResponse{body: huge}).release()
	assert.NotSame(t, huge, buffers.Get())
}

func TestFromPlatformRequiresProof(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status   int
		id, body string
		want     bool
	}{
		{404, "r-1", `{"error":"Not Found"}`, true},
		{404, "r-1", " {} \n", true},
		{404, "", `{"error":"Not Found"}`, false},
		{404, "r-1", "", false},
		{404, "r-1", "<html>", false},
		{404, "r-1", `["Not Found"]`, false},
		{404, "r-1", "{not JSON}", false},
		{404, "", `{"patient":{"id":"p1"}}`, false},
		{200, "r-1", `{"patient":{"id":"p1"}}`, true},
		{200, "", `{"patient":{"id":"p1"}}`, true},
		{200, "", `{"patient":{}}`, false},
		{200, "", `{"patient":null}`, false},
		{200, "", `{"patient":"x"}`, false},
		{200, "", `{"message":{"id":"p1"}}`, false},
		{200, "", "", false},
		{204, "r-1", "", true},
		{204, "", "", false},
		{200, "r-1", "<html>", false},
	} {
		a := lastResponse{status: test.status, header: http.Header{"X-Request-Id": {test.id}}, body: bytes.NewBufferString(test.body), complete: true}
		assert.Equal(t, test.want, a.fromPlatform("patient"), "%+v", test)
		a.complete = false
		assert.False(t, a.fromPlatform("patient"), "%+v", test)
	}
	assert.False(t, (&lastResponse{}).fromPlatform("patient"))
}

func TestDoRequiresObjectWithoutError(t *testing.T) {
	t.Parallel()
	revoke := Call{Operation: operation.OAuthRevoke, Body: thing{}}
	require.NoError(t, Do(t.Context(), newTestClient(t, says(200, "{}")), revoke))
	for _, body := range []string{"", "null", "[]", "<!doctype html><title>Guest Wi-Fi</title>", `{"error":"upstream unavailable"}`, `{"errors":[]}`} {
		err := Do(t.Context(), newTestClient(t, says(200, body)), revoke)
		require.ErrorIs(t, err, api.ErrMaybeApplied, body)
		assert.ErrorIs(t, err, api.ErrBadResponse, body)
	}
	err := Do(t.Context(), newTestClient(t, says(200, "{}", "X-Request-Id", "")), revoke)
	assert.EqualError(t, err, "dispensary: oauth.revoke POST /oauth/revoke: 200 OK: undecodable response: no JSON object with an X-Request-Id: "+
		"response may not be from the platform: write may have been applied")
}

func TestRawWriteRequiresProof(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		_, err := Raw(t.Context(), newTestClient(t, says(200, "<html>")), method, "/x", nil, nil, nil)
		require.ErrorIs(t, err, api.ErrMaybeApplied)
		_, err = Raw(t.Context(), newTestClient(t, says(200, `{"a":{"b":1}}`, "X-Request-Id", "")), method, "/x", nil, nil, nil)
		require.ErrorIs(t, err, api.ErrUntrusted)
		_, err = Raw(t.Context(), newTestClient(t, says(204, "")), method, "/x", nil, nil, nil)
		require.NoError(t, err)
	}
	body, err := Raw(t.Context(), newTestClient(t, says(200, "<html>", "X-Request-Id", "")), "GET", "/x", nil, nil, nil)
	require.NoError(t, err)
	assert.Equal(t, "<html>", string(body))
}

// A code of anybody but the platform must not mark a user.
func TestUntrustedResponseHasNoCode(t *testing.T) {
	t.Parallel()
	for requestID, code := range map[string]string{"req-1": "invalid_grant", "": ""} {
		_, err := One[thing](t.Context(), newTestClient(t, says(400, `{"error":"invalid_grant"}`, "X-Request-Id", requestID)), Call{Operation: operation.OAuthToken, Body: thing{}})
		var failed *api.Error
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, code, failed.Code)
	}
}

func TestRequestIDIsPrintableAndShort(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"":                             "",
		"7f3c-a b":                     "7f3c-a b",
		"a\x1b[2J\u009b\x7f":           "a?[2J???",
		"a\u202eb\xff":                 "a???b?",
		strings.Repeat("z", 100_000):   strings.Repeat("z", 128),
		strings.Repeat("é", 100_000):   strings.Repeat("?", 128),
		strings.Repeat("z", 127) + "é": strings.Repeat("z", 127) + "?",
	} {
		assert.Equal(t, want, RequestID(http.Header{"X-Request-Id": {given}}))
	}
}

func TestRequestIDCannotFloodErrorsAndLogs(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	client := newTestClient(t, says(404, "{}", "X-Request-Id", "\u009b2J"+strings.Repeat("z", 100_000)), func(c *Config) { c.Logger = logTo(&logged) })
	failure := failureOf(t, get(t.Context(), client))
	for _, text := range append(texts(failure), logged.String(), failure.RequestID) {
		assert.Less(t, len(text), 1000)
		assert.NotContains(t, text, "\u009b")
	}
	assert.False(t, failure.Untrusted)
}

func FuzzRequestID(f *testing.F) {
	f.Add("7f3c")
	f.Add("\u009b\xff")
	f.Fuzz(func(t *testing.T, given string) {
		got := RequestID(http.Header{"X-Request-Id": {given}})
		assert.LessOrEqual(t, len(got), maxRequestID)
		assert.Equal(t, given == "", got == "")
		for _, r := range got {
			assert.True(t, r >= ' ' && r <= '~')
		}
	})
}

func TestVersionComesFromBuild(t *testing.T) {
	t.Parallel()
	const pseudo = "v0.2.1-0.20261125213000-abcdef123456+dirty"
	other := &debug.Module{Path: "example.com/ehr", Version: "v9.0.0"}
	command := debug.Module{Path: module + "/cmd/dispensary", Version: pseudo}
	for name, c := range map[string]struct {
		main debug.Module
		root *debug.Module
		want string
	}{
		"a dependency":            {*other, &debug.Module{Path: module, Version: "v0.2.0"}, "0.2.0"},
		"a fork":                  {*other, &debug.Module{Path: module, Version: "v0.2.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v0.2.1"}}, "0.2.1"},
		"a folder":                {*other, &debug.Module{Path: module, Version: "v0.2.0", Replace: &debug.Module{Path: "../dispensary"}}, "devel"},
		"a workspace":             {*other, &debug.Module{Path: module, Version: "(devel)"}, "devel"},
		"the command":             {debug.Module{Path: command.Path, Version: "v0.2.0"}, &debug.Module{Path: module, Version: "v0.2.0"}, "0.2.0"},
		"the command in checkout": {command, &debug.Module{Path: module, Version: "(devel)"}, pseudo[1:]},
		"this module":             {debug.Module{Path: module, Version: "v0.2.0"}, other, "0.2.0"},
		"none":                    {debug.Module{Path: module, Version: "(devel)"}, other, "devel"},
	} {
		got := recordedVersion(&debug.BuildInfo{Main: c.main, Deps: []*debug.Module{other, c.root}})
		assert.Equal(t, c.want, got, name)
		assert.Regexp(t, "^[0-9A-Za-z.+-]+$", got, "a product version in User-Agent is a token (RFC 9110, section 5.6.2)")
	}
}
