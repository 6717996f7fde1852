package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
)

func TestSecretsAreNeverShown(t *testing.T) {
	t.Parallel()
	secret := api.NewSecret("canary")
	token := api.AccessToken{Secret: secret, Scope: "catalog:read"}
	var forms bytes.Buffer
	for _, v := range []any{secret, &secret, token, &token, []api.Secret{secret}, map[string]api.Secret{"k": secret}, api.Value(secret)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
			fmt.Fprintf(&forms, verb, v)
		}
		encoded, err := json.Marshal(v)
		require.NoError(t, err)
		forms.Write(encoded)
		slog.New(slog.NewJSONHandler(&forms, nil)).Info("x", "v", v)
		slog.New(slog.NewTextHandler(&forms, nil)).Info("x", "v", v)
	}
	for _, shown := range []string{"canary", "63616e617279", "63616E617279"} {
		assert.NotContains(t, forms.String(), shown)
	}
	assert.Equal(t, "canary", secret.Reveal())
	assert.Equal(t, "[redacted]", secret.String())
	assert.Empty(t, api.NewSecret("").String(), "an empty secret is seen to be empty")
}

func TestAccessTokenScopes(t *testing.T) {
	t.Parallel()
	token := api.AccessToken{Scope: "catalog:read patients:read"}
	assert.True(t, token.HasScope("patients:read"))
	assert.False(t, token.HasScope("patients"))
	assert.False(t, api.AccessToken{}.HasScope("catalog:read"))
}
