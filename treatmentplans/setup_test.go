package treatmentplans_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// unknown is an id that nothing has.
const unknown = "00000000-0000-4000-8000-000000000000"

// bench is a platform, and its treatment plans as the first practitioner sees
// them.
type bench struct {
	treatmentplans.Service
	*dispensarytest.Server
	sent *lastBody

	patient, practitioner, variant string
}

func start(t *testing.T, options ...dispensarytest.Option) *bench {
	t.Helper()
	platform := dispensarytest.New(t, options...)
	sent := &lastBody{base: platform.HTTPClient().Transport}
	client := platform.Client(dispensarytest.User{}, dispensary.WithHTTPClient(&http.Client{Transport: sent}))
	p := platform.Platform()
	return &bench{
		Service: client.TreatmentPlans, Server: platform, sent: sent,
		patient: p.Patients()[3].ID, practitioner: p.Practitioners()[0].ID, variant: p.Products()[0].VariantIDs[0],
	}
}

// lastBody is a transport that keeps the body of the last request.
type lastBody struct {
	base http.RoundTripper
	mu   sync.Mutex
	body []byte
}

func (l *lastBody) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	l.mu.Lock()
	l.body = body
	l.mu.Unlock()
	return l.base.RoundTrip(r)
}

func (l *lastBody) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.body)
}

// walk reads a list in each of its three ways, size items a page, holds what they
// return against each other, and returns the items.
func walk[O, T any](
	t *testing.T, size int, options func(api.Paging) O,
	list func(context.Context, O, ...api.RequestOption) (*api.Page[T], error),
	pages func(context.Context, O, ...api.RequestOption) iter.Seq2[*api.Page[T], error],
	all func(context.Context, O, ...api.RequestOption) iter.Seq2[T, error],
) []T {
	t.Helper()
	items := collect(t, all(t.Context(), options(api.Paging{PageSize: size})))
	require.Greater(t, len(items), size, "a single page says nothing about paging")
	var paged []T
	for _, page := range collect(t, pages(t.Context(), options(api.Paging{PageSize: size}))) {
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

// collect reads a sequence that must not fail.
func collect[T any](t *testing.T, items iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for item, err := range items {
		require.NoError(t, err)
		all = append(all, item)
	}
	return all
}

// ids returns the ids of items.
func ids[T any](items []T, id func(T) string) []string {
	all := make([]string, 0, len(items))
	for _, item := range items {
		all = append(all, id(item))
	}
	return all
}

// requireArgument fails unless err names the operation and the field, and nothing
// was sent since the journal was reset.
func (b *bench) requireArgument(t *testing.T, err error, operation, field string) {
	t.Helper()
	var argument *api.ArgumentError
	require.ErrorAs(t, err, &argument)
	assert.Equal(t, operation, argument.Operation)
	assert.Equal(t, field, argument.Field)
	require.ErrorIs(t, err, api.ErrInvalidArgument)
	require.ErrorIs(t, err, api.ErrNotSent)
	assert.Zero(t, b.Journal().Len(), "something was sent")
}

// requireRefused fails unless the platform answered a write with status.
func requireRefused(t *testing.T, err error, status int, sentinel error) *api.Error {
	t.Helper()
	var failure *api.Error
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, status, failure.StatusCode)
	require.ErrorIs(t, err, sentinel)
	require.ErrorIs(t, err, api.ErrRefused)
	require.NotErrorIs(t, err, api.ErrMaybeApplied)
	assert.NotEmpty(t, failure.Messages())
	return failure
}

// The calls that name a record know an unknown id from an empty one: the first is
// asked for, the second is not even sent.
func TestCallsOnNothing(t *testing.T) {
	t.Parallel()
	b := start(t)
	for operation, call := range b.callsByID() {
		b.Journal().Reset()
		var argument *api.ArgumentError
		require.ErrorAs(t, call(t.Context(), ""), &argument, operation)
		assert.Equal(t, operation, argument.Operation)
		assert.Zero(t, b.Journal().Len(), operation)
		var failure *api.Error
		require.ErrorAs(t, call(t.Context(), unknown), &failure, operation)
		require.ErrorIs(t, failure, api.ErrNotFound)
		assert.Equal(t, operation, failure.Operation)
		assert.Equal(t, failure.Method != http.MethodGet, errors.Is(failure, api.ErrRefused), "a write was refused, a read was not")
	}
}

// callsByID are the calls that name a record, by their operation.
func (b *bench) callsByID() map[string]func(ctx context.Context, id string) error {
	lines := []treatmentplans.Recommendation{{VariantID: b.variant, UnitsToPurchase: 1}}
	return map[string]func(ctx context.Context, id string) error{
		"dynamic_links.get": func(ctx context.Context, id string) error { _, err := b.DynamicLinks.Get(ctx, id); return err },
		"protocols.get":     func(ctx context.Context, id string) error { _, err := b.Protocols.Get(ctx, id); return err },
		"protocols.list": func(ctx context.Context, id string) error {
			_, err := b.Protocols.List(ctx, id, treatmentplans.ProtocolListOptions{})
			return err
		},
		"treatment_plans.activate": func(ctx context.Context, id string) error { _, err := b.Activate(ctx, id); return err },
		"treatment_plans.cancel":   func(ctx context.Context, id string) error { _, err := b.Cancel(ctx, id); return err },
		"treatment_plans.create": func(ctx context.Context, id string) error {
			_, err := b.Create(ctx, id, treatmentplans.New{PractitionerID: b.practitioner, Recommendations: lines})
			return err
		},
		"treatment_plans.get": func(ctx context.Context, id string) error { _, err := b.Get(ctx, id); return err },
		"treatment_plans.in_office_checkout": func(ctx context.Context, id string) error {
			_, err := b.InOfficeCheckout(ctx, id)
			return err
		},
		"treatment_plans.list": func(ctx context.Context, id string) error {
			_, err := b.List(ctx, id, treatmentplans.ListOptions{})
			return err
		},
		"treatment_plans.update": func(ctx context.Context, id string) error {
			_, err := b.Update(ctx, id, treatmentplans.Update{Recommendations: lines})
			return err
		},
	}
}
