package sqlstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

func TestClaimFlowDeletesOldFlows(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		db := d.migrated(t)
		store := d.store(t, db)
		claim := func(flow string) string {
			result, err := store.ClaimFlow(t.Context(), tokenstore.FlowClaim{
				Environment: api.USSandbox, Flow: flow, Owner: "a",
			}, time.Minute)
			require.NoError(t, err)
			return result
		}
		claim("old")
		claim("young")
		d.exec(t, db, "UPDATE dispensary_oauth_flows SET claimed_until = 1, result = 'connected' WHERE flow = 'old'")
		assert.Equal(t, "connected", claim("old"))
		claim("new")
		assert.Equal(t, 2, d.count(t, db, "SELECT COUNT(*) FROM dispensary_oauth_flows"))
		assert.Empty(t, claim("old"))
	})
}
