package tokens_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

func TestNewConnectionsNamesTheFieldAtFault(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		field  string
		change func(*tokens.Config)
	}{
		"no client":       {"Client", func(c *tokens.Config) { c.Client = nil }},
		"no store":        {"Store", func(c *tokens.Config) { c.Store = nil }},
		"negative leeway": {"Leeway", func(c *tokens.Config) { c.Leeway = -1 }},
		"short lease":     {"LeaseTTL", func(c *tokens.Config) { c.LeaseTTL = time.Millisecond }},
		"negative lease":  {"LeaseTTL", func(c *tokens.Config) { c.LeaseTTL = -time.Hour }},
		"negative pause":  {"Breaker", func(c *tokens.Config) { c.Breaker.Pause = -1 }},
		"negative users":  {"Breaker", func(c *tokens.Config) { c.Breaker.Users = -1 }},
		"negative window": {"Breaker", func(c *tokens.Config) { c.Breaker.Window = -1 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := tokens.Config{Client: oauthtest.NewClient(t, nil), Store: tokens.NewMemoryStore()}
			test.change(&config)
			_, err := tokens.NewConnections(config)
			var argument *api.ArgumentError
			require.ErrorAs(t, err, &argument)
			assert.Equal(t, "tokens.Config."+test.field, argument.Field)
		})
	}
}
