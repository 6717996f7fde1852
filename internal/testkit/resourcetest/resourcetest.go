// Package resourcetest has what the tests of several resources share: the body that was
// sent, the items of a sequence, a bad argument that is not sent.
package resourcetest

import (
	"bytes"
	"io"
	"iter"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
)

// LastBody is a transport that keeps the body of the last request.
type LastBody struct {
	Base http.RoundTripper

	mu   sync.Mutex
	body []byte
}

// RoundTrip keeps the body and sends the request.
func (l *LastBody) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	l.mu.Lock()
	l.body = body
	l.mu.Unlock()
	return l.Base.RoundTrip(r)
}

// String returns the body; "" where there was none.
func (l *LastBody) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.body)
}

// Collect reads a sequence that must not fail.
func Collect[T any](t *testing.T, items iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for item, err := range items {
		require.NoError(t, err)
		all = append(all, item)
	}
	return all
}

// RequireUnsent fails unless err names the operation and the field, and nothing was
// sent since the platform's journal was reset.
func RequireUnsent(t *testing.T, platform *dispensarytest.Server, err error, operation, field string) {
	t.Helper()
	var argument *api.ArgumentError
	require.ErrorAs(t, err, &argument)
	assert.Equal(t, operation, argument.Operation)
	assert.Equal(t, field, argument.Field)
	require.ErrorIs(t, err, api.ErrArgument)
	require.ErrorIs(t, err, api.ErrNotSent)
	assert.Empty(t, platform.Journal.Requests(), "something was sent")
}
