// Package resourcetest has checks that the tests of all resources share: that the three
// ways of reading a list agree, that a bad argument is not sent.
package resourcetest

import (
	"bytes"
	"context"
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

// Walk reads a list in each of its three ways, size items a page, holds what they
// return against each other, and returns the items.
func Walk[O, T any](
	t *testing.T, size int, options func(api.Paging) O,
	list func(context.Context, O, ...api.RequestOption) (*api.Page[T], error),
	pages func(context.Context, O, ...api.RequestOption) iter.Seq2[*api.Page[T], error],
	all func(context.Context, O, ...api.RequestOption) iter.Seq2[T, error],
) []T {
	t.Helper()
	items := Collect(t, all(t.Context(), options(api.Paging{PageSize: size})))
	require.Greater(t, len(items), size, "a single page says nothing about paging")
	var paged []T
	for _, page := range Collect(t, pages(t.Context(), options(api.Paging{PageSize: size}))) {
		assert.EqualValues(t, len(items), page.Meta.TotalCount)
		assert.LessOrEqual(t, len(page.Items), size)
		paged = append(paged, page.Items...)
	}
	assert.Equal(t, items, paged, "Pages and All differ")
	second, err := list(t.Context(), options(api.Paging{Page: 2, PageSize: size}))
	require.NoError(t, err)
	assert.Equal(t, items[size:min(2*size, len(items))], second.Items, "List and All differ")
	return items
}

// WalkOf is [Walk] for a list of what belongs to the record with the id.
func WalkOf[O, T any](
	t *testing.T, size int, id string, options func(api.Paging) O,
	list func(context.Context, string, O, ...api.RequestOption) (*api.Page[T], error),
	pages func(context.Context, string, O, ...api.RequestOption) iter.Seq2[*api.Page[T], error],
	all func(context.Context, string, O, ...api.RequestOption) iter.Seq2[T, error],
) []T {
	t.Helper()
	return Walk(t, size, options,
		func(ctx context.Context, o O, r ...api.RequestOption) (*api.Page[T], error) {
			return list(ctx, id, o, r...)
		},
		func(ctx context.Context, o O, r ...api.RequestOption) iter.Seq2[*api.Page[T], error] {
			return pages(ctx, id, o, r...)
		},
		func(ctx context.Context, o O, r ...api.RequestOption) iter.Seq2[T, error] {
			return all(ctx, id, o, r...)
		})
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

// IDs returns the ids of items.
func IDs[T any](items []T, id func(T) string) []string {
	all := make([]string, 0, len(items))
	for _, item := range items {
		all = append(all, id(item))
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
	require.ErrorIs(t, err, api.ErrInvalidArgument)
	require.ErrorIs(t, err, api.ErrNotSent)
	assert.Zero(t, platform.Journal().Len(), "something was sent")
}
