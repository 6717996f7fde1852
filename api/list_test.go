package api_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
)

// listing returns a list of pages followed by err. It records the settings of each reading.
func listing(err error, pages ...[]int) (*api.List[int], *[]api.ListSettings) {
	read := new([]api.ListSettings)
	return api.NewList(func(_ context.Context, s api.ListSettings) iter.Seq2[*api.Page[int], error] {
		*read = append(*read, s)
		return func(yield func(*api.Page[int], error) bool) {
			for _, items := range pages {
				if !yield(&api.Page[int]{Items: items}, nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
			}
		}
	}), read
}

func TestListReturnsItemsOfPages(t *testing.T) {
	t.Parallel()
	list, read := listing(nil, []int{1, 2}, nil, []int{3})
	assert.Empty(t, *read, "a list must not read before All, Pages or Page")
	for range 2 {
		var items []int
		for item, err := range list.All(t.Context()) {
			require.NoError(t, err)
			items = append(items, item)
		}
		assert.Equal(t, []int{1, 2, 3}, items)
	}
	page, err := list.Page(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2}, page.Items)
	for item := range list.All(t.Context()) {
		assert.Equal(t, 1, item)
		break
	}
	assert.Len(t, *read, 4)
}

func TestListSettingsChangeCopy(t *testing.T) {
	t.Parallel()
	list, read := listing(nil)
	drifts := 0
	changed := list.StartAt(2).PageSize(3).Limit(4).Prefetch(5).OnDrift(func(api.Drift) { drifts++ })
	for range changed.Pages(t.Context()) {
	}
	page, err := changed.Page(t.Context())
	require.NoError(t, err)
	assert.Empty(t, page.Items)
	_, _ = list.Page(t.Context())
	require.Len(t, *read, 3)
	(*read)[0].OnDrift(api.Drift{})
	(*read)[1].OnDrift(api.Drift{})
	assert.Equal(t, 2, drifts)
	for i := range *read {
		(*read)[i].OnDrift = nil
	}
	assert.Equal(t, []api.ListSettings{
		{StartAt: 2, PageSize: 3, Limit: 4, Prefetch: 5},
		{StartAt: 2, PageSize: 3, Limit: 4, Prefetch: 1}, // Page ignores Prefetch
		{},
	}, *read)
}

func TestListEndsWithError(t *testing.T) {
	t.Parallel()
	failed := errors.New("lost")
	list, _ := listing(failed, []int{1})
	var items []int
	var errs []error
	for item, err := range list.All(t.Context()) {
		items, errs = append(items, item), append(errs, err)
	}
	assert.Equal(t, []int{1, 0}, items)
	assert.Equal(t, []error{nil, failed}, errs)
	list, _ = listing(failed)
	page, err := list.Page(t.Context())
	require.ErrorIs(t, err, failed)
	assert.Nil(t, page)
}

func TestZeroListIsEmpty(t *testing.T) {
	t.Parallel()
	var list api.List[int]
	for range list.Limit(3).All(t.Context()) {
		t.Error("an item")
	}
	page, err := list.Page(t.Context())
	require.NoError(t, err)
	assert.Empty(t, page.Items)
}

// A list without a platform, for your own tests.
func ExampleNewList() {
	list := api.NewList(func(context.Context, api.ListSettings) iter.Seq2[*api.Page[string], error] {
		return func(yield func(*api.Page[string], error) bool) {
			yield(&api.Page[string]{Items: []string{"first", "second"}}, nil)
		}
	})
	for item, err := range list.All(context.Background()) {
		fmt.Println(item, err)
	}
	// Output:
	// first <nil>
	// second <nil>
}
