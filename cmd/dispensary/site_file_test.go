package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/integration"
)

// Two sites can have the same environment, such as a sandbox and a fake platform.
func TestSitesOfOneEnvironmentShareNoFiles(t *testing.T) {
	t.Parallel()
	p := bare(t).program(nil, nil, nil)
	one := dispensary.Site{Environment: dispensary.USSandbox, BaseURL: "https://one.example/api", AuthURL: "https://one.example"}
	slash, other := one, one
	slash.BaseURL += "/"
	other.BaseURL = "https://other.example/api"
	for name, file := range map[string]func(dispensary.Site) string{
		"catalog": func(s dispensary.Site) string { return siteFile("catalog", ".json.gz", s) },
		"cursor": func(s dispensary.Site) string {
			name, err := p.cursorFile(s, "http://localhost:3000")
			require.NoError(t, err)
			return name
		},
		"tokens": func(s dispensary.Site) string { return loginStore("", integration.Application{Site: s}) },
	} {
		assert.NotEqual(t, file(one), file(other), name)
		assert.Equal(t, file(one), file(slash), name)
	}
}

func TestSQLitePathHasNoHost(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	f.variables["DISPENSARY_STORE"] = "sqlite://var/lib/tokens.db"
	f.refused("DISPENSARY_STORE must not begin with sqlite:// and a host", "accounts", "list")
}
