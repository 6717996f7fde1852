package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/oauth/connect"
)

// accountKeys are the settings of an integration that accounts need.
var accountKeys = []string{"base_url", "auth_url", "client_id", "client_secret", "redirect_url"}

// loadApplication reads the configuration and returns the application of a command. If the
// client secret is missing and stdin is a terminal, it asks for the secret. It removes a store in
// memory, because no other command would find its tokens.
func (p *program) loadApplication(ctx context.Context, t target) (c integration.Config, a integration.Application, err error) {
	keys := accountKeys
	if p.asks {
		keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return key == "client_secret" })
	}
	if c, err = p.loadConfig(keys...); err != nil {
		return c, a, err
	}
	if c.Store.Reveal() == inMemory {
		c.Store = dispensary.Secret{}
	}
	if a, err = p.application(c, t); err != nil || !a.ClientSecret.IsZero() || !p.asks {
		return c, a, err
	}
	_, _ = fmt.Fprintf(p.errOut, "Client secret of %s: ", a.Site.Environment)
	text, err := p.readSecret(ctx)
	a.ClientSecret = dispensary.NewSecret(text)
	c.Applications = []integration.Application{a} // c had a copy of a without the secret
	return c, a, err
}

// openAccounts opens the accounts of one application, with the browser flow if flow is not nil.
// If no store is configured, it uses the store of login.
func (p *program) openAccounts(ctx context.Context, t target, flow *connect.Config) (_ *integration.Integration, a integration.Application, err error) {
	c, a, err := p.loadApplication(ctx, t)
	if err != nil {
		return nil, a, err
	}
	a.WebhookSecrets, a.WebhookChallenge = nil, dispensary.Secret{}
	c.Applications, c.Inbox = []integration.Application{a}, dispensary.Secret{}
	if c.Store.IsZero() {
		if err := p.useLoginStore(ctx, &c, a); err != nil {
			return nil, a, err
		}
	}
	setup := integration.Setup{}
	if flow != nil {
		setup.Connect = *flow
		if len(c.StateKeys) == 0 { // the flow begins and ends in this process
			c.StateKeys = []dispensary.Secret{dispensary.NewSecret(rand.Text() + rand.Text())}
		}
	}
	app, err := integration.Open(ctx, c, setup)
	return app, a, err
}

// loginStore returns the path of the store of login for an application, in the configuration
// folder. A stored token does not contain the URL that issued it, so each site and client has
// its own store.
func loginStore(folder string, a integration.Application) string {
	return filepath.Join(folder, siteFile("tokens", ".db", a.Site, a.Site.AuthURL, a.ClientID))
}

// useLoginStore sets the store of login and its encryption keys in c. The configured keys may
// end with a fake platform.
func (p *program) useLoginStore(ctx context.Context, c *integration.Config, a integration.Application) error {
	folder, err := p.configFolder()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	c.Store = dispensary.NewSecret("sqlite:" + loginStore(folder, a))
	c.SealKeys, err = sealKeys(ctx, p.keyring, folder)
	return err
}
