package clienttest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/webhook"
)

// failureTexts collects the texts of failed assertions.
type failureTexts struct{ strings.Builder }

func (f *failureTexts) Errorf(format string, args ...any) { fmt.Fprintf(f, format, args...) }

// A failed assertion dumps values by reflection, through every pointer.
func TestDumpsHideSecrets(t *testing.T) {
	t.Parallel()
	site := dispensary.Site{
		Environment: dispensary.USSandbox,
		BaseURL:     "https://platform.example/api", AuthURL: "https://platform.example",
	}
	canary := func(name string) dispensary.Secret { return dispensary.NewSecret(strings.Repeat("canary-", 6) + name) }
	client, err := dispensary.New(site, dispensary.WithClinicKey(canary("key")), dispensary.WithAccessToken(canary("token").Reveal()))
	require.NoError(t, err)
	app, err := oauth.New(oauth.Config{
		Site: site, ClientID: "id", ClientSecret: canary("secret"), RedirectURL: "https://ehr.example/callback", Scopes: []string{"catalog:read"},
	})
	require.NoError(t, err)
	tenant, err := webhook.NewTenant(webhook.TenantConfig{
		Name: "clinic", Environment: site.Environment, Secrets: []dispensary.Secret{canary("webhook-secret")}, Challenge: canary("challenge"),
	})
	require.NoError(t, err)
	for name, value := range map[string]any{
		"client": client, "view": view(t, client, dispensary.WithClinicKey(canary("other-key"))), "oauth": app, "tenant": tenant,
	} {
		var texts failureTexts
		require.False(t, assert.ElementsMatch(&texts, []any{value}, []any{1}))
		assert.NotContains(t, texts.String(), "canary", name)
	}
}
