package api_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
)

func TestDateFilters(t *testing.T) {
	t.Parallel()
	march, april := api.Date{Year: 2026, Month: 3, Day: 4}, api.Date{Year: 2026, Month: 4, Day: 1}
	for want, filter := range map[string]api.DateFilter{
		"2026-03-04":             api.DateOn(march),
		"<2026-03-04":            api.DateBefore(march),
		">2026-03-04":            api.DateAfter(march),
		"2026-03-04..2026-04-01": api.DateRange(march, april),
		"2026-03-04..2026-03-04": api.DateRange(march, march),
	} {
		values := url.Values{}
		require.NoError(t, filter.EncodeValues("completed_at", &values))
		assert.Equal(t, url.Values{"completed_at": {want}}, values)
	}
	values := url.Values{}
	require.NoError(t, api.DateFilter{}.EncodeValues("completed_at", &values))
	assert.Empty(t, values)
	for _, bad := range []api.DateFilter{
		api.DateOn(api.Date{}), api.DateAfter(api.Date{Year: 2026, Month: 2, Day: 30}),
		api.DateRange(march, api.Date{}), api.DateRange(april, march),
	} {
		err := bad.EncodeValues("completed_at", &values)
		assert.ErrorIs(t, err, api.ErrArgument)
		assert.ErrorContains(t, err, "completed_at")
	}
}
