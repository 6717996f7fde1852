package integration_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// application is valid.
var application = integration.Application{
	Site: dispensary.Site{Environment: dispensary.USSandbox, BaseURL: "https://platform.example/api", AuthURL: "https://platform.example"}, ClientID: "id", ClientSecret: dispensary.NewSecret("secret"),
	RedirectURL: "https://ehr.example/callback",
}

// This test imports no driver.
func TestMissingDriverNamesImport(t *testing.T) {
	t.Parallel()
	for scheme, missing := range map[string]string{"postgres": "postgres", "postgresql": "postgres", "mysql": "mysql", "sqlite": "sqlite"} {
		err := integration.Config{Applications: []integration.Application{application}, Store: dispensary.NewSecret(scheme + "://canary")}.Check()
		require.ErrorContains(t, err, `integration.Config.Store needs a driver in the program: import _ "github.com/dispensary-go/dispensary/integration/`+missing+`"`)
		assert.NotContains(t, err.Error(), "canary")
	}
}

// opened receives the options of a store when it is closed.
var opened = make(chan integration.StoreOptions, 1)

func init() {
	integration.Register("vault", integration.Driver{
		Parse: func(url string) (string, error) {
			if url == "vault:" {
				return "", errors.New("must name a vault")
			}
			return url[len("vault:"):], nil
		},
		OpenStore: func(_ context.Context, _ string, o integration.StoreOptions) (*integration.Store, error) {
			return &integration.Store{Store: tokenstore.NewMemoryStore(), Close: func(context.Context) error { opened <- o; return nil }}, nil
		},
	})
}

func TestProgramRegistersDriver(t *testing.T) {
	t.Parallel()
	limited := application
	limited.RateLimit = "100/1m"
	config := integration.Config{
		Applications: []integration.Application{limited}, Inbox: dispensary.NewSecret("vault:1"), Store: dispensary.NewSecret("vault:"),
		SealKeys: dispensary.NewSecret("2026:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="),
	}
	err := config.Check()
	require.ErrorContains(t, err, "integration.Config.Store must name a vault")
	require.ErrorContains(t, err, "integration.Config.Inbox must begin with one of postgres:, sqlite:, memory:")
	config.Store, config.Inbox = dispensary.NewSecret("vault:1"), dispensary.Secret{}
	i, err := integration.Open(t.Context(), config, integration.Setup{})
	require.NoError(t, err)
	require.NoError(t, i.Shutdown(t.Context()))
	assert.Equal(t, 1, (<-opened).Limiters)
}
