package main

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/oauth/connect"
)

// accountKeys are the settings of an integration that its accounts need.
var accountKeys = []string{"base_url", "auth_url", "client_id", "client_secret", "redirect_url"}

// openAccounts opens the accounts of one application, and their browser flow if there is one: those of the configured store, or else of one of this user of the machine, in
// the configuration folder, sealed by a key of the keyring.
func (p *program) openAccounts(ctx context.Context, t target, flow *connect.Config) (_ *integration.Integration, a integration.Application, err error) {
	c, err := p.loadConfig(accountKeys...)
	if err != nil {
		return nil, a, err
	}
	a, err = p.application(c, t)
	if err != nil {
		return nil, a, err
	}
	a.ClinicKey = p.clinicKey(a)
	a.WebhookSecrets, a.WebhookChallenge, a.ReconcileUsers = nil, "", nil
	c.Applications, c.Inbox = []integration.Application{a}, ""
	if c.Store == "" {
		folder, err := p.configFolder()
		if err != nil {
			return nil, a, err
		}
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, a, err
		}
		c.Store = dispensary.Secret("sqlite:" + filepath.Join(folder, "tokens.db"))
		if c.SealKeys == "" {
			if c.SealKeys, err = p.sealKeys(ctx, folder); err != nil {
				return nil, a, err
			}
		}
	}
	setup := integration.Setup{}
	if flow != nil {
		setup.Connect = *flow
		if len(c.StateKeys) == 0 { // the flow ends in the process in which it begins
			c.StateKeys = []dispensary.Secret{dispensary.Secret(rand.Text() + rand.Text())}
		}
	}
	app, err := integration.Open(ctx, c, setup)
	return app, a, err
}
