package clienttest_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// A view has its own key, without effect on any other call.
func TestViewUsesItsClinicKey(t *testing.T) {
	t.Parallel()
	platform := dispensarytest.New(t, dispensarytest.WithTuning(dispensarytest.Tuning{Integrations: 2}))
	first, second := dispensary.NewSecret(platform.ClinicKeys()[0]), dispensary.NewSecret(platform.ClinicKeys()[1])
	var sent []string
	root := platform.Client(model.User{}, dispensary.WithTransport(roundTripper(func(r *http.Request) (*http.Response, error) {
		sent = append(sent, r.Header.Get("X-SVC-Clinic-Key"))
		return platform.HTTPClient().Transport.RoundTrip(r)
	})))
	integration := func(c *dispensary.Client) string {
		t.Helper()
		got, err := c.Clinic.Get(t.Context())
		require.NoError(t, err)
		return got.IntegrationID
	}
	one, two := view(t, root, dispensary.WithClinicKey(first)), view(t, root, dispensary.WithClinicKey(second))
	assert.NotEqual(t, integration(one), integration(two))
	assert.Equal(t, integration(two), integration(view(t, two, dispensary.WithTokenSource(platform.TokenSource(model.User{})))), "a view of a view keeps the key")
	assert.Equal(t, integration(one), integration(view(t, two, dispensary.WithClinicKey(first))))
	integration(root)
	assert.Equal(t, []string{
		first.Reveal(), second.Reveal(), second.Reveal(), second.Reveal(), first.Reveal(), first.Reveal(), "",
	}, sent)
}

func TestInvalidClinicKeyIsRejected(t *testing.T) {
	t.Parallel()
	client, err := dispensary.New(sandboxSite())
	require.NoError(t, err)
	for key, want := range map[dispensary.Secret]string{
		{}:                                 "WithClinicKey(key) is empty",
		dispensary.NewSecret(" \t"):        "WithClinicKey(key) is blank",
		dispensary.NewSecret("canary\n"):   "ClinicKey contains a line break",
		dispensary.NewSecret("\x00canary"): "ClinicKey contains a line break",
	} {
		_, ofClient := dispensary.New(sandboxSite(), dispensary.WithClinicKey(key))
		_, ofView := client.With(dispensary.WithClinicKey(key))
		for _, err := range []error{ofClient, ofView} {
			var argument *api.ArgumentError
			require.ErrorAs(t, err, &argument)
			require.ErrorContains(t, err, want)
			assert.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), "canary")
		}
	}
}
