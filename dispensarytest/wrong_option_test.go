package dispensarytest_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// What is wrong with an option is said in words that lead on: the name that was meant
// or those there are, and the reason that applies.
func TestWrongOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		option dispensarytest.Option
		want   string
	}{
		"behavior of nothing known": {dispensarytest.WithBehavior("foo=bar"), `there is no open point "foo"`},
		"misspelt open point":       {dispensarytest.WithBehavior("probes=off"), `there is no open point "probes" (did you mean "probe"?)`},
		"scope of nothing known":    {dispensarytest.WithScopes("everything"), `there is no scope "everything", only catalog:read, clinic:read`},
		"misspelt scope":            {dispensarytest.WithScopes("patients:raed"), `there is no scope "patients:raed" (did you mean "patients:read"?)`},
		"event type":                {dispensarytest.WithWebhook("https://example.com/", "x"), `there is no event type "x", only clinic_key.activated`},
		"redirect over FTP":         {dispensarytest.WithRedirectURI("ftp://127.0.0.1/"), `WithRedirectURI("ftp://127.0.0.1/"): must begin with https://, or on loopback with http://`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := dispensarytest.Start(dispensarytest.WithInMemory(), c.option)
			require.ErrorIs(t, err, dispensarytest.ErrOption)
			assert.ErrorContains(t, err, c.want)
			assert.NotContains(t, err.Error(), `""`, "an empty suggestion is none")
		})
	}
}

// What else is wrong is refused with the name of the option.
func TestWrongOptionsAreNamed(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]dispensarytest.Option{
		"WithBehaviorsFile: open": dispensarytest.WithBehaviorsFile("no-such-file.json"), "WithBehaviorsFile: doc.go: not a file": dispensarytest.WithBehaviorsFile("doc.go"),
		"WithAddr": dispensarytest.WithAddr("nowhere"), "WithClock": dispensarytest.WithClock(nil), "WithDeliveryClient": dispensarytest.WithDeliveryClient(nil),
		"WithDeliveryTimeout": dispensarytest.WithDeliveryTimeout(0), "WithIntegrations": dispensarytest.WithIntegrations(0), "WithRegion": dispensarytest.WithRegion("UK"),
		"WithJournalLimit": dispensarytest.WithJournalLimit(0), "WithRedirectURI": dispensarytest.WithRedirectURI("/relative"),
		"plain HTTP only on loopback": dispensarytest.WithRedirectURI("http://ehr.example.com/cb"),
	} {
		_, err := dispensarytest.Start(option)
		require.ErrorIs(t, err, dispensarytest.ErrOption)
		require.ErrorContains(t, err, name)
		require.ErrorContains(t, err, "dispensarytest: ")
	}
}

func TestNilOptionChangesNothing(t *testing.T) {
	t.Parallel()
	fake := dispensarytest.New(t, nil, dispensarytest.WithInMemory(), nil)
	assert.Equal(t, dispensarytest.New(t).Users(), fake.Users())
	assert.NotNil(t, fake.Client(model.User{}, nil))
}

func TestAFailureOfTheMachineIsNoWrongOption(t *testing.T) {
	t.Parallel()
	taken, err := url.Parse(dispensarytest.New(t).BaseURL())
	require.NoError(t, err)
	_, err = dispensarytest.Start(dispensarytest.WithAddr(taken.Host))
	require.Error(t, err)
	assert.NotErrorIs(t, err, dispensarytest.ErrOption)
}
