package oauth_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

func TestNewRefusesMisspeltScopes(t *testing.T) {
	t.Parallel()
	config := func(scopes ...string) oauth.Config {
		return oauth.Config{
			Site: api.Site{
				Environment: api.Environment{Region: api.US, Stage: api.Sandbox},
				BaseURL:     "https://platform.example/api", AuthURL: "https://auth.example",
			},
			ClientID: "id", ClientSecret: "secret", RedirectURL: "https://ehr.example/callback", Scopes: scopes,
		}
	}
	for misspelt, meant := range map[string]string{
		"catalog:reed": "catalog:read", "Clinic:Write": "clinic:write", "patient:read": "patients:read", "patients.read": "patients:read",
		"patients:order-history": "patients:order_history", "patients:treatment_plans_history": "patients:treatment_plan_history",
		"clinics": "clinic", "catalog:raed": "catalog:read",
	} {
		_, err := oauth.New(config(api.ScopeCatalogRead, misspelt))
		var argument *api.ArgumentError
		require.ErrorAs(t, err, &argument, misspelt)
		assert.Equal(t, "oauth.Config.Scopes", argument.Field)
		assert.Equal(t, `seems to hold a misspelt "`+meant+`" at index 1`, argument.Reason)
	}
	_, err := oauth.New(config(api.Scopes()...))
	require.NoError(t, err)
	for _, unknown := range []string{"labs:read", "catalog:write", "clinic:delete", "patients:allergies", "subscriptions", "x"} {
		_, err := oauth.New(config(unknown))
		require.NoError(t, err, "the platform may have added %s", unknown)
	}
	_, err = oauth.New(config("0123456789secret"))
	require.NoError(t, err)
	_, err = oauth.New(config("with space"))
	assert.ErrorContains(t, err, "without space")
	assert.NotContains(t, err.Error(), "with space")
}
