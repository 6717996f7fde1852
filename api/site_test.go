package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
)

func sandboxSite() api.Site {
	return api.Site{
		Environment: api.USSandbox,
		BaseURL:     "https://platform.example/api",
		AuthURL:     "https://auth.example",
	}
}

func TestSiteNamesInvalidField(t *testing.T) {
	t.Parallel()
	require.NoError(t, sandboxSite().Validate())
	require.NoError(t, api.USSandbox.At("https://platform.example/api").Validate())
	for want, change := range map[string]func(*api.Site){
		"Environment is empty":                                    func(s *api.Site) { s.Environment = "" },
		"Environment is not a region and a stage":                 func(s *api.Site) { s.Environment = "mars/sandbox" },
		"BaseURL of us/sandbox is empty":                          func(s *api.Site) { s.BaseURL = "" },
		"BaseURL of us/sandbox is not an absolute URL":            func(s *api.Site) { s.BaseURL = "/api" },
		"AuthURL of us/sandbox is not an absolute URL":            func(s *api.Site) { s.AuthURL = "https:auth" },
		"BaseURL of us/sandbox must not contain user information": func(s *api.Site) { s.BaseURL = "https://me:canary@platform.example" },
		"BaseURL of us/sandbox must not contain a query":          func(s *api.Site) { s.BaseURL = "https://platform.example?canary" },
		"BaseURL of us/sandbox must not contain a query or":       func(s *api.Site) { s.BaseURL = "https://platform.example#canary" },
		"BaseURL of us/sandbox is not an https URL":               func(s *api.Site) { s.BaseURL = "ftp://platform.example" },
		"BaseURL of us/sandbox must use HTTPS":                    func(s *api.Site) { s.BaseURL = "http://platform.example" },
		"AuthURL of us/sandbox is not an absolute":                func(s *api.Site) { s.AuthURL = "https://%zz" },
	} {
		site := sandboxSite()
		change(&site)
		err := site.Validate()
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "canary")
	}
}

func TestEnvironmentParsesItsText(t *testing.T) {
	t.Parallel()
	for text, e := range map[string]api.Environment{
		"us/sandbox": api.USSandbox, "us/production": api.USProduction,
		"ca/sandbox": api.CanadaSandbox, "CA/Production": api.CanadaProduction,
	} {
		parsed, err := api.ParseEnvironment(text)
		require.NoError(t, err)
		assert.Equal(t, e, parsed)
		assert.Equal(t, strings.ToLower(text), e.String())
		assert.NoError(t, e.Validate())
		assert.Equal(t, strings.HasSuffix(text, "/sandbox"), e.IsSandbox())
	}
	for _, text := range []string{"us", "us/", "", "none", "us/sandbox "} {
		_, err := api.ParseEnvironment(text)
		assert.Error(t, err, text)
	}
	assert.Equal(t, "none", api.Environment("").String())
	assert.False(t, api.Environment("").IsSandbox())
}
