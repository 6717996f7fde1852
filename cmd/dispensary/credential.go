package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/oauth"
)

// hasCredential reports whether a command calls with the access token of the variables. An
// explicit --user is called with the user's own token.
func (p *program) hasCredential(t target) bool {
	token := p.lookup(tokenVariable)
	return token != "" && !t.given("user")
}

// credential returns the access token of the variables, and the key of its clinic, for calls
// to an application. It rejects an application of another site than [program.isHome]. No other
// function reads these variables.
func (p *program) credential(a integration.Application) (token oauth.Token, clinicKey dispensary.Secret, err error) {
	home, err := p.isHome(a.Site)
	if err == nil && !home {
		err = fmt.Errorf("%s belongs to another site than this %s", tokenVariable, a.Site.Environment)
	}
	if err != nil {
		return token, dispensary.Secret{}, fmt.Errorf("%w: unset the token, or call as a connected user with --user", err)
	}
	text := p.lookup(tokenVariable)
	key := p.lookup(clinicKeyVariable)
	if key == "" {
		key = a.ClinicKey.Reveal()
	}
	return oauth.Token{AccessToken: dispensary.NewSecret(text), Environment: a.Site.Environment}, dispensary.NewSecret(key), nil
}

// isHome reports whether the token of the variables belongs to a site. The variables contain
// no address for it, so its site is the one that the command works with if no flag chooses
// another. If only flags configure sites, DISPENSARY_ENVIRONMENT has to name the environment.
func (p *program) isHome(site dispensary.Site) (bool, error) {
	c, _ := p.defaultConfig() // its problems do not matter: only sites are compared
	name := p.lookup(environmentVariable)
	environment, err := api.ParseEnvironment(name)
	if err != nil && (name != "" || len(c.Applications) != 1) {
		return false, fmt.Errorf("%s does not name the environment of %s", environmentVariable, tokenVariable)
	}
	if len(c.Applications) == 0 {
		return environment == site.Environment, nil
	}
	home, err := p.application(c, target{})
	return err == nil && sameSite(home.Site, site), nil
}

// sameSite reports whether two sites are one environment at one address.
func sameSite(a, b dispensary.Site) bool {
	return a.Environment == b.Environment && strings.TrimSuffix(a.BaseURL, "/") == strings.TrimSuffix(b.BaseURL, "/")
}

// client returns a client that calls with the credential of the variables, or else as the
// connected user. It has to be closed, which waits until a refreshed token is stored.
func (p *program) client(ctx context.Context, t target) (_ *dispensary.Client, closed func() error, err error) {
	if !p.hasCredential(t) {
		app, _, err := p.openAccounts(ctx, t, nil)
		if err != nil {
			return nil, nil, err
		}
		client, err := app.Accounts.Client(ctx, t.user)
		closed := func() error { return app.Shutdown(context.WithoutCancel(ctx)) }
		if err != nil {
			return nil, nil, errors.Join(err, closed())
		}
		return client, closed, nil
	}
	c, err := p.loadConfig("base_url", "auth_url")
	if err != nil {
		return nil, nil, err
	}
	a, err := p.application(c, t)
	if err != nil {
		return nil, nil, err
	}
	token, key, err := p.credential(a)
	if err != nil {
		return nil, nil, err
	}
	options := []dispensary.Option{dispensary.WithAccessToken(token.AccessToken.Reveal())}
	if !key.IsZero() {
		options = append(options, dispensary.WithClinicKey(key))
	}
	client, err := dispensary.New(a.Site, options...)
	return client, func() error { return nil }, err
}
