package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/internal/environ"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/seal"
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

// keyringTime is the longest wait for the system keyring, which may ask the user to unlock it.
const keyringTime = 3 * time.Second

// sealKeyName is the name of the file with the encryption keys, used without a keyring.
const sealKeyName = "seal.key"

// keyringName is the service name of the key in the keyring.
const keyringName = "dispensary"

// sealKeys returns the encryption keys of this user's token stores in folder. On first use it
// creates a key in the system keyring. If the keyring fails, it creates a file that only the user
// can read. It never creates a key if folder already has a token store.
func sealKeys(ctx context.Context, ring keyringStore, folder string) (dispensary.Secret, error) {
	name := filepath.Join(folder, sealKeyName)
	if kept, err := readKeys(name); !kept.IsZero() || err != nil {
		return kept, err
	}
	keys, err := fromKeyring(ctx, func() (string, error) { return ring.Get(keyringName, folder) })
	if err == nil {
		return keys, nil
	}
	if stores, _ := filepath.Glob(filepath.Join(folder, "tokens-*.db")); len(stores) > 0 {
		return dispensary.Secret{}, fmt.Errorf("the encryption key of %s is in the system keyring: unlock the keyring and retry: %w", stores[0], err)
	}
	key, err := seal.GenerateKey(time.Now().UTC().Format("2006-01-02"))
	if err != nil {
		return dispensary.Secret{}, err
	}
	_, err = fromKeyring(ctx, func() (string, error) { return "", ring.Set(keyringName, folder, key.Text().Reveal()) })
	if err == nil {
		return key.Text(), nil
	}
	return key.Text(), writeKey(name, key)
}

// readKeys returns the encryption keys in a file, or an empty secret if the file does not exist.
func readKeys(name string) (dispensary.Secret, error) {
	content, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return dispensary.Secret{}, nil
	}
	if err != nil {
		return dispensary.Secret{}, err
	}
	keys := dispensary.NewSecret(strings.TrimSpace(string(content)))
	if _, err := seal.ParseKeyRing(keys); err != nil {
		return dispensary.Secret{}, fmt.Errorf("%s contains no encryption key: restore the file, or delete it and the data that it encrypts", name)
	}
	return keys, nil
}

// writeKey writes an encryption key to a new file that only the user can read.
func writeKey(name string, key seal.Key) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(key.Text().Reveal() + "\n")
	return errors.Join(err, file.Sync(), file.Close())
}

// keyringStore is a keyring. Tests replace the system keyring.
type keyringStore interface {
	Get(service, user string) (string, error)
	Set(service, user, password string) error
}

// systemKeyring is the keyring of macOS, of Windows or of the Secret Service of a Linux desktop.
type systemKeyring struct{}

// Get implements keyringStore.
func (systemKeyring) Get(service, user string) (string, error) { return keyring.Get(service, user) }

// Set implements keyringStore.
func (systemKeyring) Set(service, user, password string) error {
	return keyring.Set(service, user, password)
}

// fromKeyring calls ask and waits up to keyringTime.
func fromKeyring(ctx context.Context, ask func() (string, error)) (dispensary.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, keyringTime)
	defer cancel()
	type response struct {
		text string
		err  error
	}
	responded := make(chan response, 1)
	go func() {
		text, err := ask()
		responded <- response{text, err}
	}()
	select {
	case a := <-responded:
		return dispensary.NewSecret(a.text), a.err
	case <-ctx.Done():
		return dispensary.Secret{}, fmt.Errorf("the keyring did not respond within %s", keyringTime)
	}
}

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
	c.Applications = []integration.Application{a}
	c = c.WithoutWebhooks()
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
