package resource_test

import (
	"context"
	"iter"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/resource"
)

var noon = time.Date(2026, time.March, 4, 12, 0, 0, 0, time.FixedZone("", -7*60*60))

func TestPeriodEncodesDays(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]resource.Period{
		"":            {},
		">2026-03-02": {Since: noon},
		"<2026-03-06": {Before: noon},
		">2026-03-01": {Since: noon.Add(-24 * time.Hour), Before: noon},
	} {
		values := url.Values{}
		require.NoError(t, p.EncodeValues("completed_at", &values))
		assert.Equal(t, want, values.Get("completed_at"))
	}
	for _, wrong := range []resource.Period{
		{Since: noon, Before: noon.Add(-1)}, {Since: noon.AddDate(9000, 0, 0)}, {Before: noon.AddDate(-2100, 0, 0)},
		{Since: time.Date(1, time.January, 3, 0, 0, 0, 0, time.UTC)},
	} {
		err := wrong.EncodeValues("completed_at", &url.Values{})
		require.ErrorIs(t, err, api.ErrArgument)
		require.ErrorContains(t, err, "completed_at")
	}
}

// hours returns a list of five times, one hour apart, in pages of two.
func hours(settings *[]api.ListSettings) *api.List[time.Time] {
	return api.NewList(func(_ context.Context, s api.ListSettings) iter.Seq2[*api.Page[time.Time], error] {
		*settings = append(*settings, s)
		return func(yield func(*api.Page[time.Time], error) bool) {
			if s.Limit < 0 {
				yield(nil, &api.ArgumentError{Field: "Limit"})
				return
			}
			for i := 0; i < 5; i += 2 {
				var page api.Page[time.Time]
				for h := i; h < min(i+2, 5); h++ {
					page.Items = append(page.Items, noon.Add(time.Duration(h)*time.Hour))
				}
				if !yield(&page, nil) {
					return
				}
			}
		}
	})
}

func collect(t *testing.T, list *api.List[time.Time]) (offsets []int) {
	t.Helper()
	for at, err := range list.All(t.Context()) {
		require.NoError(t, err)
		offsets = append(offsets, int(at.Sub(noon)/time.Hour))
	}
	return offsets
}

func TestFilterKeepsPeriod(t *testing.T) {
	t.Parallel()
	var settings []api.ListSettings
	itself := func(at time.Time) time.Time { return at }
	list := resource.Filter(hours(&settings), resource.Period{Since: noon.Add(time.Hour), Before: noon.Add(4 * time.Hour)}, itself)
	assert.Equal(t, []int{1, 2, 3}, collect(t, list))
	assert.Equal(t, []int{1, 2}, collect(t, list.Limit(2).StartAt(3).PageSize(7).Prefetch(4)))
	assert.Equal(t, api.ListSettings{StartAt: 3, PageSize: 7, Prefetch: 4}, settings[1], "the limit counts matching items only")
	assert.Equal(t, []int{0, 1, 2, 3, 4}, collect(t, resource.Filter(hours(&settings), resource.Period{}, itself)))
	unknown := resource.Filter(hours(&settings), resource.Period{Since: noon.AddDate(1, 0, 0)}, func(time.Time) time.Time { return time.Time{} })
	assert.Len(t, collect(t, unknown), 5, "Filter keeps items without a time")

	_, err := list.Limit(-1).Page(t.Context())
	require.ErrorIs(t, err, api.ErrArgument)
	page, err := list.Page(t.Context())
	require.NoError(t, err)
	assert.Len(t, page.Items, 1)
}
