package transport

import (
	"bytes"
	"io"
	"net/http"
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
func endlessly(status int) (*answers, *endless) {
	body := new(endless)
	return &answers{answer: func(int, *http.Request) (*http.Response, error) { return body.reply(status) }}, body
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
	var a answer
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
	(&answer{body: huge}).release()
	assert.NotSame(t, huge, buffers.Get())
}
