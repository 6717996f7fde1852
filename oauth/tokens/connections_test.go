package tokens_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

func TestNewConnectionsNamesInvalidField(t *testing.T) {
	type test struct {
		field  string
		change func(*tokens.Config)
	}
	oauthtest.Each(t, map[string]test{
		"no client":   {"Client", func(c *tokens.Config) { c.Client = nil }},
		"no store":    {"Store", func(c *tokens.Config) { c.Store = nil }},
		"short lease": {"LeaseTTL", func(c *tokens.Config) { c.LeaseTTL = time.Millisecond }},
	}, func(t *testing.T, test test) {
		config := tokens.Config{Client: oauthtest.NewClient(t, nil), Store: tokenstore.NewMemoryStore()}
		test.change(&config)
		_, err := tokens.NewConnections(config)
		var argument *api.ArgumentError
		require.ErrorAs(t, err, &argument)
		assert.Equal(t, "tokens.Config."+test.field, argument.Field)
	})
}
