package dispensarytest_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// The error of an invalid option is helpful: it contains the closest valid name or all valid
// names, and the reason.
func TestInvalidOptionsAreExplained(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		option dispensarytest.Option
		want   string
	}{
		"behavior of nothing known": {dispensarytest.WithBehavior("foo=bar"), `there is no behavior "foo"`},
		"misspelt behavior":         {dispensarytest.WithBehavior("probes=off"), `there is no behavior "probes" (did you mean "probe"?)`},
		"scope of nothing known":    {dispensarytest.WithScopes("everything"), `there is no scope "everything", only catalog:read, clinic:read`},
		"misspelt scope":            {dispensarytest.WithScopes("patients:raed"), `there is no scope "patients:raed" (did you mean "patients:read"?)`},
		"event type":                {dispensarytest.WithWebhook("https://example.com/", "x"), `there is no event type "x", only clinic_key.activated`},
		"redirect over FTP":         {dispensarytest.WithRedirectURI("ftp://127.0.0.1/"), `WithRedirectURI "ftp://127.0.0.1/" must begin with https://, or on loopback with http://`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := dispensarytest.Start(dispensarytest.WithInMemory(), c.option)
			require.ErrorIs(t, err, api.ErrArgument)
			assert.ErrorContains(t, err, c.want)
			assert.NotContains(t, err.Error(), `""`, "there is no empty suggestion")
		})
	}
}

// The error of an invalid option contains the name of the option.
func TestInvalidOptionErrorNamesOption(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]dispensarytest.Option{
		"WithBehaviorsFile is invalid: open": dispensarytest.WithBehaviorsFile("no-such-file.json"), "WithBehaviorsFile is invalid: doc.go: not a file": dispensarytest.WithBehaviorsFile("doc.go"),
		"WithEnvironment must be": dispensarytest.WithEnvironment("uk/sandbox"), "WithRedirectURI \"/relative\"": dispensarytest.WithRedirectURI("/relative"),
		"plain HTTP and not on loopback": dispensarytest.WithRedirectURI("http://ehr.example.com/cb"),
		"Tuning.Addr is invalid":         dispensarytest.WithTuning(dispensarytest.Tuning{Addr: "nowhere"}),
		"Tuning.WorldSize has":           dispensarytest.WithTuning(dispensarytest.Tuning{WorldSize: model.WorldSize{Orders: -1}}),
		"Tuning.Integrations is 101":     dispensarytest.WithTuning(dispensarytest.Tuning{Integrations: 101}),
		"Tuning.JournalLimit is":         dispensarytest.WithTuning(dispensarytest.Tuning{JournalLimit: -1}),
		"Tuning.EventLimit is":           dispensarytest.WithTuning(dispensarytest.Tuning{EventLimit: -1}),
		"Tuning.DeliveryTimeout is":      dispensarytest.WithTuning(dispensarytest.Tuning{DeliveryTimeout: -1}),
		"Tuning.ParallelDeliveries is":   dispensarytest.WithTuning(dispensarytest.Tuning{ParallelDeliveries: 1001}),
	} {
		_, err := dispensarytest.Start(option)
		var wrong *api.ArgumentError
		require.ErrorAs(t, err, &wrong, name)
		require.ErrorContains(t, err, "dispensary: dispensarytest."+strings.TrimPrefix(name, "plain HTTP and not on loopback"))
		require.ErrorContains(t, err, name)
	}
}

// Several options add up. A zero field changes nothing.
func TestTuningsAddUp(t *testing.T) {
	t.Parallel()
	fake := dispensarytest.New(t, dispensarytest.WithInMemory(),
		dispensarytest.WithTuning(dispensarytest.Tuning{Integrations: 2, Seed: 7}), dispensarytest.WithTuning(dispensarytest.Tuning{Seed: 8}))
	assert.Len(t, fake.ClinicKeys(), 2)
	assert.Equal(t, dispensarytest.New(t, dispensarytest.WithInMemory(), dispensarytest.WithTuning(dispensarytest.Tuning{Seed: 8})).Users(), fake.Users())
}

func TestNilOptionChangesNothing(t *testing.T) {
	t.Parallel()
	fake := dispensarytest.New(t, nil, dispensarytest.WithInMemory(), nil)
	assert.Equal(t, dispensarytest.New(t).Users(), fake.Users())
	assert.NotNil(t, fake.Client(model.User{}, nil))
}

func TestListenFailureIsNoArgumentError(t *testing.T) {
	t.Parallel()
	taken, err := url.Parse(dispensarytest.New(t).Site().BaseURL)
	require.NoError(t, err)
	_, err = dispensarytest.Start(dispensarytest.WithTuning(dispensarytest.Tuning{Addr: taken.Host}))
	require.Error(t, err)
	assert.NotErrorIs(t, err, api.ErrArgument)
}
