package clienttest_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// A view has its own key, which affects no other call.
func TestClinicKeyOfAView(t *testing.T) {
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
	one, two := root.WithClinicKey(first), root.WithClinicKey(second)
	assert.NotEqual(t, integration(one), integration(two))
	assert.Equal(t, integration(two), integration(two.WithTokenSource(platform.TokenSource(model.User{}))), "a view of a view keeps its key")
	assert.Equal(t, integration(one), integration(two.WithClinicKey(first)))
	integration(root)
	assert.Equal(t, []string{
		first.Reveal(), second.Reveal(), second.Reveal(), second.Reveal(), first.Reveal(), first.Reveal(), "",
	}, sent)
}

// A key that cannot be sent is refused by its name, at whatever place it was given.
func TestClinicKeysThatCannotBeSent(t *testing.T) {
	t.Parallel()
	platform := dispensarytest.New(t)
	root := platform.Client(model.User{})
	for key, reason := range map[dispensary.Secret]string{dispensary.Secret{}: "is empty", dispensary.NewSecret("canary\n"): "holds a line break", dispensary.NewSecret("\x00canary"): "holds a line break"} {
		_, ofView := root.WithClinicKey(key).Clinic.Get(t.Context())
		_, ofWrite := root.WithClinicKey(key).Clinic.Patients.Create(t.Context(), newPatient(1))
		_, _, ofEnsure := root.WithClinicKey(key).Clinic.Patients.Ensure(t.Context(), newPatient(1))
		for _, err := range []error{ofView, ofWrite, ofEnsure} {
			var argument *dispensary.ArgumentError
			require.ErrorAs(t, err, &argument)
			assert.Equal(t, "ClinicKey", argument.Field)
			assert.Contains(t, argument.Reason, reason)
			require.ErrorIs(t, err, dispensary.ErrNotSent)
			assert.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), "canary")
		}
	}
	assert.Empty(t, platform.Journal.Requests())
}
