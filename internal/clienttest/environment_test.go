package clienttest_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
)

// Not parallel: the environment belongs to the process.
func TestNewFromEnvSelectsSite(t *testing.T) {
	type env map[string]string
	site := env{"DISPENSARY_US_SANDBOX_BASE_URL": "https://platform.example/api", "DISPENSARY_US_SANDBOX_AUTH_URL": "https://auth.example"}
	second := env{"DISPENSARY_CA_PRODUCTION_BASE_URL": "https://ca.example/api", "DISPENSARY_CA_PRODUCTION_AUTH_URL": "https://ca.example"}
	for name, c := range map[string]struct {
		given []env
		want  string // environment, or a part of the error
	}{
		"one site":            {[]env{site}, "us/sandbox"},
		"chosen":              {[]env{site, second, {"DISPENSARY_ENVIRONMENT": "ca/production"}}, "ca/production"},
		"no site":             {nil, "DISPENSARY_US_SANDBOX_BASE_URL"},
		"no AuthURL":          {[]env{{"DISPENSARY_US_SANDBOX_BASE_URL": "https://platform.example/api"}}, "us/sandbox"},
		"only AuthURL":        {[]env{{"DISPENSARY_US_SANDBOX_AUTH_URL": "https://auth.example"}}, "DISPENSARY_US_SANDBOX_BASE_URL"},
		"no choice of two":    {[]env{site, second}, "DISPENSARY_ENVIRONMENT must be set"},
		"unknown environment": {[]env{site, {"DISPENSARY_ENVIRONMENT": "mars"}}, "DISPENSARY_ENVIRONMENT must be"},
		"chosen without site": {[]env{site, {"DISPENSARY_ENVIRONMENT": "ca/sandbox"}}, "DISPENSARY_CA_SANDBOX_BASE_URL"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variables := range c.given {
				for name, value := range variables {
					t.Setenv(name, value)
				}
			}
			client, err := dispensary.NewFromEnv()
			if err != nil {
				assert.ErrorContains(t, err, c.want)
				return
			}
			assert.Equal(t, c.want, client.Site().Environment.String())
		})
	}
}

func TestNewFromEnvNamesVariableOfCredential(t *testing.T) {
	t.Setenv("DISPENSARY_US_SANDBOX_BASE_URL", "https://platform.example/api")
	for _, variable := range []string{"DISPENSARY_ACCESS_TOKEN", "DISPENSARY_CLINIC_KEY"} {
		t.Run(variable, func(t *testing.T) {
			for value, want := range map[string]string{"  ": "is blank", `"canary"`: "has quotes around it", "${CANARY}": "is the unexpanded name of another variable"} {
				t.Setenv(variable, value)
				_, err := dispensary.NewFromEnv()
				require.EqualError(t, err, "dispensary: "+variable+" "+want)
				require.ErrorIs(t, err, api.ErrArgument)
			}
		})
	}
}

// The client sends the token and the clinic key. Options override them.
func TestNewFromEnvSendsTokenAndKey(t *testing.T) {
	t.Setenv("DISPENSARY_US_SANDBOX_BASE_URL", "https://platform.example/api")
	t.Setenv("DISPENSARY_US_SANDBOX_AUTH_URL", "https://auth.example")
	t.Setenv("DISPENSARY_ACCESS_TOKEN", "from-env")
	t.Setenv("DISPENSARY_CLINIC_KEY", "key-from-env")
	var sent http.Header
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		sent = r.Header.Clone()
		return nil, errors.New("no response")
	})
	call := func(options ...dispensary.Option) {
		client, err := dispensary.NewFromEnv(append(options, dispensary.WithTransport(transport),
			dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: 1}))...)
		require.NoError(t, err)
		_, err = client.Clinic.Get(context.Background())
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "from-env")
	}
	call()
	assert.Equal(t, "Bearer from-env", sent.Get("Authorization"))
	assert.Equal(t, "key-from-env", sent.Get("X-Svc-Clinic-Key"))
	call(dispensary.WithClinicKey(dispensary.NewSecret("another")))
	assert.Equal(t, "another", sent.Get("X-Svc-Clinic-Key"))
}
