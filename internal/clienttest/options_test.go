package clienttest_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/catalog"
)

func sandboxSite() dispensary.Site {
	return dispensary.Site{
		Environment: dispensary.USSandbox,
		BaseURL:     "https://platform.example/api",
		AuthURL:     "https://auth.example",
	}
}

func TestNewRejectsInvalidOptions(t *testing.T) {
	t.Parallel()
	for want, option := range map[string]dispensary.Option{
		"WithAccessToken(token) is empty":              dispensary.WithAccessToken(""),
		"WithAccessToken(token) contains a line break": dispensary.WithAccessToken("token\n"),
		"WithAccessToken(token) is blank":              dispensary.WithAccessToken(" \t"),
		"WithAccessToken(token) begins with Bearer":    dispensary.WithAccessToken("Bearer b2d8"),
		"WithAccessToken(token) begins with Bearer,":   dispensary.WithAccessToken("bearer"),
		"WithAccessToken(token) contains white space":  dispensary.WithAccessToken("b2d8 "),
		"WithClinicKey(key) is empty":                  dispensary.WithClinicKey(dispensary.Secret{}),
		"WithClinicKey(key) is blank":                  dispensary.WithClinicKey(dispensary.NewSecret(" \t")),
		"ClinicKey contains a line break":              dispensary.WithClinicKey(dispensary.NewSecret("key\n")),
		"WithUserAgent":                                dispensary.WithUserAgent(""),
		"negative":                                     dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: -1}),
	} {
		_, err := dispensary.New(sandboxSite(), option)
		assert.ErrorContains(t, err, want)
		assert.ErrorIs(t, err, api.ErrArgument)
	}
	_, err := dispensary.New(dispensary.Site{})
	assert.ErrorContains(t, err, "Environment is empty")
	site := sandboxSite()
	site.BaseURL = "http://platform.example/api"
	_, err = dispensary.New(site)
	assert.ErrorIs(t, err, api.ErrInsecure)
}

func TestFirstCallSendsToken(t *testing.T) {
	t.Parallel()
	token := "b2d8"
	var sent string
	for _, site := range []dispensary.Site{
		dispensary.USSandbox.At("https://platform.example/api"), dispensary.CanadaProduction.At("https://ca.platform.example/api"),
	} {
		client, err := dispensary.New(site, dispensary.WithAccessToken(token), dispensary.WithTransport(roundTripper(func(r *http.Request) (*http.Response, error) {
			sent = r.Header.Get("Authorization") + " " + r.URL.String()
			return respond(r, `{"clinic":{"id":"c"}}`), nil
		})))
		require.NoError(t, err)
		practice, err := client.Clinic.Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "c", practice.ID)
		assert.Equal(t, "Bearer b2d8 "+site.BaseURL+"/clinic", sent)
	}
}

// For every option, nil keeps the default.
func TestNilOptionsChangeNothing(t *testing.T) {
	t.Parallel()
	client, err := dispensary.New(sandboxSite(), nil, dispensary.WithTokenSource(nil), dispensary.WithTransport(nil),
		dispensary.WithLimiter(nil), dispensary.WithLogger(nil), dispensary.WithObserver(observe.Observer{}))
	require.NoError(t, err)
	assert.Equal(t, sandboxSite(), client.Site())
	_, err = client.Clinic.Get(t.Context())
	assert.ErrorIs(t, err, dispensary.ErrNotSent)
	assert.ErrorContains(t, err, "WithTokenSource")
}

func TestUserAgentOptionServesSeveralClients(t *testing.T) {
	t.Parallel()
	outer, inner := dispensary.WithUserAgent("Outer/1"), dispensary.WithUserAgent("Inner/2")
	for range 2 {
		var agent string
		client, err := dispensary.New(sandboxSite(), inner, outer, dispensary.WithTokenSource(fixedToken{}),
			dispensary.WithTransport(roundTripper(func(r *http.Request) (*http.Response, error) {
				agent = r.UserAgent()
				return respond(r, `{"clinic":{"id":"c"}}`), nil
			})))
		require.NoError(t, err)
		_, err = client.Clinic.Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "Outer/1 Inner/2 dispensary-go/"+dispensary.Version(), agent)
	}
}

func TestForPractitionerSetsQuery(t *testing.T) {
	t.Parallel()
	var queries []string
	client, err := dispensary.New(sandboxSite(), dispensary.WithTokenSource(fixedToken{}), dispensary.WithTransport(roundTripper(func(r *http.Request) (*http.Response, error) {
		queries = append(queries, r.URL.RawQuery)
		return respond(r, `{"product":{"id":"p"}}`), nil
	})))
	require.NoError(t, err)
	for _, id := range []string{"pr 1", ""} {
		_, err = client.Catalog.Products.Get(t.Context(), "p", catalog.ForPractitioner(id))
		require.NoError(t, err)
	}
	assert.Equal(t, []string{"practitioner_id=pr+1", ""}, queries)

	_, ofText := client.Catalog.Products.Get(t.Context(), "p", catalog.ForPractitioner("\xff"))
	_, ofGet := client.Catalog.Brands.Get(t.Context(), "b", catalog.ForPractitioner("pr"))
	_, ofCreate := client.Clinic.Patients.Create(t.Context(), newPatient(1), catalog.ForPractitioner("pr"))
	_, _, ofEnsure := client.Clinic.Patients.Ensure(t.Context(), newPatient(1), catalog.ForPractitioner("pr"))
	for _, err := range []error{ofText, ofGet, ofCreate, ofEnsure} {
		var argument *api.ArgumentError
		require.ErrorAs(t, err, &argument)
		assert.Equal(t, "practitioner_id", argument.Field)
	}
	assert.Len(t, queries, 2, "the other calls are not sent")
}
