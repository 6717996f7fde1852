package admin

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Reading the query of a filter returns the same filter.
func FuzzFilter(f *testing.F) {
	key := webhook.Key{Environment: receivertest.Sandbox, EventID: "a/b?&", IntegrationID: ""}
	full := queryOf(engine.Filter{
		Type: "order.placed", ClinicID: "cl 1&=", Reason: "permanent: +", Keys: []webhook.Key{key, {Environment: receivertest.Sandbox, EventID: "2"}},
		ID: "9c62", States: states["waiting"], GivenUpFrom: time.Unix(1, 2), GivenUpBefore: time.Unix(3, 4), Until: engine.Position{At: time.Unix(5, 6000), Seq: 7},
	})
	f.Add(full.Encode())
	f.Add("since=2026-03-02T09:00&before=2026-03-02T09:00:30&state=dead")
	f.Add("since=2026-03-02&state=x&key=x")
	f.Add("since=midnight&before=1h")
	f.Fuzz(func(t *testing.T, text string) {
		query, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		read, err := filterOf(query, time.Unix(1e9, 0))
		if err != nil {
			assert.Equal(t, engine.Filter{}, read)
			return
		}
		again, err := filterOf(queryOf(read), time.Time{})
		require.NoError(t, err)
		assert.Equal(t, queryOf(read), queryOf(again))
		assert.Equal(t, read.Keys, again.Keys)
		assert.Equal(t, read.Until, again.Until)
	})
}
