package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/internal/environ"
	"github.com/dispensary-go/dispensary/oauth"
)

// hasCredential reports whether a command calls with DISPENSARY_ACCESS_TOKEN. An explicit --user
// overrides it with the token of the user.
func (p *program) hasCredential(t target) bool {
	token := p.lookup(tokenVariable)
	return token != "" && !t.given("user")
}

// credential returns the access token of DISPENSARY_ACCESS_TOKEN and the key of its clinic. It
// rejects an application whose site fails [program.isHome]. No other function uses these values.
func (p *program) credential(a integration.Application) (token oauth.Token, clinicKey dispensary.Secret, err error) {
	home, err := p.isHome(a.Site)
	if err == nil && !home {
		err = fmt.Errorf("%s does not belong to this %s site", tokenVariable, a.Site.Environment)
	}
	if err != nil {
		return token, dispensary.Secret{}, fmt.Errorf("%w: unset the token, or add --user to call as a connected user", err)
	}
	token = oauth.Token{AccessToken: dispensary.NewSecret(p.lookup(tokenVariable)), Environment: a.Site.Environment}
	if clinicKey = dispensary.NewSecret(p.lookup(clinicKeyVariable)); clinicKey.IsZero() {
		clinicKey = a.ClinicKey
	} else if err := rejected(clinicKeyVariable, clinicKey, a.Site, dispensary.WithClinicKey(clinicKey)); err != nil {
		return oauth.Token{}, dispensary.Secret{}, err
	}
	return token, clinicKey, rejected(tokenVariable, token.AccessToken, a.Site, dispensary.WithAccessToken(token.AccessToken.Reveal()))
}

// rejected returns the error of an option with a secret from source, such as a variable, or nil.
func rejected(source string, secret dispensary.Secret, site dispensary.Site, option dispensary.Option) error {
	if problem := environ.ValueProblem(secret.Reveal()); problem != "" {
		return fmt.Errorf("%s %s", source, problem)
	}
	_, err := dispensary.New(site, option)
	var argument *api.ArgumentError
	if errors.As(err, &argument) && strings.HasPrefix(argument.Field, "With") { // not of the site
		return fmt.Errorf("%s %s", source, argument.Reason)
	}
	return err
}

// isHome reports whether DISPENSARY_ACCESS_TOKEN belongs to a site. No variable contains the URL
// of the token, so it belongs to the site that a command uses without flags. If only flags
// configure sites, DISPENSARY_ENVIRONMENT must name the environment.
func (p *program) isHome(site dispensary.Site) (bool, error) {
	c, _ := p.defaultConfig() // only its sites matter
	name := p.lookup(environmentVariable)
	environment, err := api.ParseEnvironment(name)
	if err != nil && (name != "" || len(c.Applications) != 1) {
		return false, fmt.Errorf("%s must name the environment of %s", environmentVariable, tokenVariable)
	}
	if len(c.Applications) == 0 {
		return environment == site.Environment, nil
	}
	home, err := p.application(c, target{})
	return err == nil && sameSite(home.Site, site), nil
}

// sameSite reports whether two sites have the same environment and base URL.
func sameSite(a, b dispensary.Site) bool {
	return a.Environment == b.Environment && strings.TrimSuffix(a.BaseURL, "/") == strings.TrimSuffix(b.BaseURL, "/")
}

// client returns a client that calls with DISPENSARY_ACCESS_TOKEN if [program.hasCredential], and
// as the connected user otherwise. Call closed after the last call: it waits until a refreshed
// token is stored.
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
