package clienttest_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/ratelimit"
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

func TestLimiterValidatesArguments(t *testing.T) {
	t.Parallel()
	limiter, err := ratelimit.New(3, time.Minute)
	require.NoError(t, err)
	require.NoError(t, limiter.Wait(t.Context()))
	for _, per := range []time.Duration{0, -1} {
		_, err := ratelimit.New(1, per)
		assert.ErrorIs(t, err, api.ErrArgument)
	}
	_, err = ratelimit.New(0, time.Second)
	assert.ErrorIs(t, err, api.ErrArgument)
}

// view returns a view of a client.
func view(t testing.TB, client *dispensary.Client, options ...dispensary.Option) *dispensary.Client {
	t.Helper()
	made, err := client.With(options...)
	require.NoError(t, err)
	return made
}

// countingLimiter appends its name to a list at each call.
type countingLimiter struct {
	name  string
	asked *[]string
}

func (l countingLimiter) Wait(context.Context) error {
	*l.asked = append(*l.asked, l.name)
	return nil
}

// A view differs from its client only in its options, and it does not change the client.
func TestViewAppliesEveryOption(t *testing.T) {
	t.Parallel()
	var asked, calls []string
	var log bytes.Buffer
	var sent *http.Request
	var bounded time.Duration
	response := func(name string) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			calls, sent = append(calls, name), r
			deadline, _ := r.Context().Deadline()
			bounded = time.Until(deadline).Round(time.Second)
			return nil, errors.New("no network")
		})
	}
	observer := func(name string) dispensary.Option {
		return dispensary.WithObserver(observe.Observer{CallEnd: func(context.Context, observe.CallResult) { calls = append(calls, name) }})
	}
	client, err := dispensary.New(sandboxSite(), dispensary.WithAccessToken("own"), dispensary.WithTransport(response("own")),
		dispensary.WithLimiter(countingLimiter{"own", &asked}), dispensary.WithUserAgent("Own/1"), dispensary.WithAttemptTimeout(time.Hour),
		dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: 2, MinWait: 1, MaxWait: 1}), observer("observed"))
	require.NoError(t, err)
	call := func(c *dispensary.Client) {
		t.Helper()
		asked, calls = nil, nil
		_, err := c.Clinic.Get(t.Context())
		require.Error(t, err)
	}
	other := view(t, client, nil, dispensary.WithAccessToken("other"), dispensary.WithTransport(response("other")),
		dispensary.WithLimiter(countingLimiter{"other", &asked}), dispensary.WithUserAgent("Other/2"), dispensary.WithAttemptTimeout(time.Minute),
		dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: 1}), dispensary.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))),
		dispensary.WithClinicKey(dispensary.NewSecret("key")), observer("observed by view"))
	call(other)
	assert.Equal(t, []string{"other", "own"}, asked, "the limiter of the view comes first")
	assert.Equal(t, []string{"other", "observed by view", "observed"}, calls)
	assert.Equal(t, "Bearer other", sent.Header.Get("Authorization"))
	assert.Equal(t, "key", sent.Header.Get("X-Svc-Clinic-Key"))
	assert.Equal(t, "Other/2 Own/1 dispensary-go/"+dispensary.Version(), sent.UserAgent())
	assert.Equal(t, time.Minute, bounded)
	assert.Contains(t, log.String(), "clinic.get")
	assert.Equal(t, client.Site(), other.Site())
	call(view(t, other))
	assert.Equal(t, "key", sent.Header.Get("X-Svc-Clinic-Key"), "a view of a view keeps the key")

	log.Reset()
	third := view(t, client, observer("observed by the third")) // must not replace the other observer
	for _, own := range []*dispensary.Client{client, view(t, client), view(t, client, dispensary.WithTokenSource(nil), dispensary.WithTransport(nil),
		dispensary.WithLimiter(nil), dispensary.WithLogger(nil))} {
		call(own)
		assert.Equal(t, []string{"own", "own"}, asked)
		assert.Equal(t, []string{"own", "own", "observed"}, calls)
		assert.Equal(t, "Bearer own", sent.Header.Get("Authorization"))
		assert.Empty(t, sent.Header.Get("X-Svc-Clinic-Key"))
		assert.Equal(t, "Own/1 dispensary-go/"+dispensary.Version(), sent.UserAgent())
		assert.Equal(t, time.Hour, bounded)
		assert.Empty(t, log.String())
	}
	call(third)
	assert.Equal(t, []string{"own", "own", "observed by the third", "observed"}, calls)
	call(other)
	assert.Equal(t, []string{"other", "observed by view", "observed"}, calls)
}

func TestViewRejectsInvalidOption(t *testing.T) {
	t.Parallel()
	client, err := dispensary.New(sandboxSite())
	require.NoError(t, err)
	for want, option := range map[string]dispensary.Option{
		"WithAccessToken(token) is empty":  dispensary.WithAccessToken(""),
		"WithUserAgent(product) is empty":  dispensary.WithUserAgent(""),
		"UserAgent contains a line break":  dispensary.WithUserAgent("a\nb"),
		"ClinicKey contains a line break":  dispensary.WithClinicKey(dispensary.NewSecret("a\nb")),
		"must not contain negative values": dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: -1}),
	} {
		_, err := client.With(option)
		require.ErrorIs(t, err, api.ErrArgument, want)
		assert.ErrorContains(t, err, want)
	}
}
