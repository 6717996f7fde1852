package main

import (
	"fmt"
	"strings"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/oauth"
)

// Variables of the library and of its command.
const (
	environmentVariable = "DISPENSARY_ENVIRONMENT"
	tokenVariable       = "DISPENSARY_ACCESS_TOKEN"
	clinicKeyVariable   = "DISPENSARY_CLINIC_KEY"
)

// hasCredential reports whether a command calls with the access token of the variables. An
// explicit --user is called with the user's own token.
func (p *program) hasCredential(t target) bool {
	token, _ := p.lookup(tokenVariable)
	return token != "" && !t.given("user")
}

// credential returns the access token of the variables, and the key of its clinic, for calls
// to an application. No other function reads these variables.
//
// The variables name no site. Their token and key therefore belong to the site that the
// command works with if no flag chooses another one, and credential rejects every other site.
func (p *program) credential(a integration.Application) (token oauth.Token, clinicKey dispensary.Secret, err error) {
	c, _ := p.defaultConfig() // its problems do not matter: only addresses are compared
	home, err := p.application(c, target{})
	if err != nil {
		return token, "", fmt.Errorf("%s belongs to the environment in %s: %w", tokenVariable, environmentVariable, err)
	}
	if !sameSite(home.Site, a.Site) {
		return token, "", fmt.Errorf("%s belongs to another site than this %s: unset it, or call as a connected user with --user", tokenVariable, a.Site.Environment)
	}
	text, _ := p.lookup(tokenVariable)
	key, _ := p.lookup(clinicKeyVariable)
	if key == "" {
		key = a.ClinicKey.Reveal()
	}
	return oauth.Token{AccessToken: dispensary.Secret(text), Environment: a.Site.Environment}, dispensary.Secret(key), nil
}

// sameSite reports whether two sites are one environment at one address.
func sameSite(a, b dispensary.Site) bool {
	return a.Environment == b.Environment && strings.TrimSuffix(a.BaseURL, "/") == strings.TrimSuffix(b.BaseURL, "/")
}
