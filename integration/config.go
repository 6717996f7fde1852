package integration

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/internal/joined"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

// Config is a whole integration without its functions: what [Load] and [LoadFile] read.
// It can be written by hand as well. Printing or encoding it shows no secret.
type Config struct {
	// Applications are those of the developer dashboards, one for each environment.
	Applications []Application

	// Store is the address of the database that keeps the tokens of all users:
	//
	//	postgres://user:password@host/database
	//	mysql:user:password@tcp(host:3306)/database    MariaDB, too; as its Go driver has it
	//	sqlite:/var/lib/ehr/dispensary.db
	//	memory:                                        for tests and sandboxes
	Store dispensary.Secret

	// Inbox is the address of the database that keeps the events of webhooks, and the
	// checkpoints of reconcilers: postgres with River as the queue for any number of
	// replicas, sqlite for one process, or memory. It may be that of Store. It is
	// required where an application receives webhooks. The pool of postgres has four
	// connections more than Work.Workers, if pool_max_conns does not set its size.
	Inbox dispensary.Secret

	// SealKeys seal what Store and Inbox hold, as [seal.ParseKeyRing] reads them: an id
	// and 32 random bytes in base64 for each key, the newest first. Required unless
	// everything is kept in memory.
	SealKeys dispensary.Secret

	// StateKeys sign the state of the browser flow: see [connect.Config]. Required where
	// there is a browser flow.
	StateKeys []dispensary.Secret

	names names
	files []string // with secrets, that were read
}

// Application is one application in one environment, as the developer dashboard shows
// it. Site, ClientID, ClientSecret and RedirectURL are required.
type Application struct {
	// Site is the environment with its two addresses.
	Site dispensary.Site

	// ClientID, ClientSecret, RedirectURL and Scopes are those of [oauth.Config].
	ClientID     string
	ClientSecret dispensary.Secret
	RedirectURL  string
	Scopes       []string

	// WebhookSecrets are the secrets that webhooks are signed with, two while one is
	// rotated, and WebhookChallenge is the challenge token: see [webhook.HandlerConfig].
	// Without either the application receives no webhooks.
	WebhookSecrets   []dispensary.Secret
	WebhookChallenge dispensary.Secret

	// ClinicKey is sent with every call; empty sends none. The first call with the key
	// activates the integration. Until then the platform sends no webhook. If clinics have
	// keys of their own, see [accounts.Config].
	// API section: "Authentication" 9.
	ClinicKey dispensary.Secret

	// RateLimit is the number of requests that the platform allows the application in any
	// period, in the form 5000/5m. It covers all calls of the users' clients, token requests
	// and background work. Processes share the limit if Store is postgres, or with
	// [Setup].RateLimitStore. Otherwise each process has the whole limit. Empty limits each
	// process to [ratelimit.DefaultRequests] in [ratelimit.DefaultPer].
	RateLimit string
}

// Name is the name of the application in paths and logs: region and stage, as in
// "us-sandbox".
func (a Application) Name() string {
	return strings.ReplaceAll(a.Site.Environment.String(), "/", "-")
}

// receives reports that the application has an endpoint for webhooks.
func (a Application) receives() bool {
	return len(a.WebhookSecrets) > 0 || !a.WebhookChallenge.IsZero()
}

// oauth completes the configuration that all applications share.
func (a Application) oauth(shared oauth.Config) oauth.Config {
	shared.Site, shared.ClientID, shared.ClientSecret = a.Site, a.ClientID, a.ClientSecret
	shared.RedirectURL, shared.Scopes = a.RedirectURL, a.Scopes
	return shared
}

// Check reports everything that is missing or cannot work, and asks nothing but the
// configuration itself. Each problem is an [*dispensary.ArgumentError] that names the
// variable, or the key of the file, or the Go field, and never repeats a value.
func (c Config) Check() error {
	var problems []error
	if len(c.Applications) == 0 {
		problems = append(problems, c.problem(c.names.environments(), "is empty: no environment is configured, such as us/sandbox"))
	}
	environments := map[dispensary.Environment]bool{}
	for i := range c.Applications {
		a := &c.Applications[i]
		if environments[a.Site.Environment] {
			problems = append(problems, c.problem(c.names.environments(), "holds two of "+a.Site.Environment.String()))
		}
		environments[a.Site.Environment] = true
		problems = append(problems, c.checkApplication(*a)...)
	}
	for i, key := range c.StateKeys {
		if len(key.Reveal()) < connect.MinStateKey {
			problems = append(problems, c.problem(fmt.Sprintf("%s[%d]", c.name("state_keys"), i), fmt.Sprintf("is shorter than %d bytes", connect.MinStateKey)))
		}
	}
	return errors.Join(append(problems, c.checkStorage()...)...)
}

// checkApplication makes what is made of an application later.
func (c Config) checkApplication(a Application) []error {
	_, err := oauth.New(a.oauth(oauth.Config{}))
	if a.receives() && a.Site.Environment.Validate() == nil { // else it has been said
		_, refused := webhook.NewTenant(webhook.TenantConfig{
			Environment: a.Site.Environment, Secrets: a.WebhookSecrets, Challenge: a.WebhookChallenge,
		})
		err = errors.Join(err, refused)
	}
	problems := joined.Errors(err)
	for i, problem := range problems {
		problems[i] = c.renamed(a.Site.Environment, problem)
	}
	if _, _, problem := parseRateLimit(a.RateLimit); problem != "" {
		problems = append(problems, c.problem(c.names.of(a.Site.Environment, "rate_limit"), problem))
	}
	return problems
}

// checkStorage looks at the addresses and the keys of what is kept.
func (c Config) checkStorage() []error {
	var problems []error
	durable, needed := false, !c.Inbox.IsZero()
	for i := range c.Applications {
		needed = needed || c.Applications[i].receives()
	}
	for _, one := range []struct {
		key     string
		address dispensary.Secret
		kinds   []kind
		needed  bool
	}{
		{"store", c.Store, []kind{postgres, mysql, sqlite, memory}, true},
		{"inbox", c.Inbox, []kind{postgres, sqlite, memory}, needed},
	} {
		if !one.needed {
			continue
		}
		at, problem := parseAddress(one.address, one.kinds)
		if problem == "" && at.kind == memory && c.live() {
			problem = "keeps nothing when the process ends, and an environment is a production one"
		}
		if problem != "" {
			problems = append(problems, c.problem(c.name(one.key), problem))
		}
		durable = durable || at.kind != memory
	}
	switch _, err := seal.ParseKeyRing(c.SealKeys); {
	case c.SealKeys.IsZero() && durable:
		problems = append(problems, c.problem(c.name("seal_keys"), "is empty: tokens and events are kept sealed only"))
	case !c.SealKeys.IsZero() && err != nil:
		problems = append(problems, c.problem(c.name("seal_keys"), "cannot be used: "+strings.TrimPrefix(err.Error(), "dispensary: ")))
	}
	return problems
}

// live reports that one of the environments has live data.
func (c Config) live() bool {
	for i := range c.Applications {
		if c.Applications[i].Site.Environment.Stage == dispensary.Production {
			return true
		}
	}
	return false
}

// name returns what a setting of all applications is called where the configuration
// comes from.
func (c Config) name(key string) string { return c.names.of(dispensary.Environment{}, key) }

func (c Config) problem(name, reason string) error {
	return &dispensary.ArgumentError{Field: name, Reason: reason}
}

// keys are the settings of an application by the fields that constructors name.
var keys = map[string]string{
	"Site.BaseURL": "base_url", "Site.AuthURL": "auth_url",
	"oauth.Config.ClientID": "client_id", "oauth.Config.ClientSecret": "client_secret",
	"oauth.Config.RedirectURL": "redirect_url", "oauth.Config.Scopes": "scopes",
	"webhook.TenantConfig.Secrets": "webhook_secrets", "webhook.TenantConfig.Challenge": "webhook_challenge",
}

// renamed returns a problem that a constructor has found in an application, with the
// name of the setting in place of that of its field.
func (c Config) renamed(environment dispensary.Environment, err error) error {
	var argument *dispensary.ArgumentError
	if !errors.As(err, &argument) {
		return err
	}
	field, index, _ := strings.Cut(argument.Field, "[")
	name := "integration.Config.Applications[" + environment.String() + "]." + field
	if key, known := keys[field]; known {
		name = c.names.of(environment, key)
	}
	if index != "" {
		name += "[" + index
	}
	reason := strings.TrimPrefix(argument.Reason, "of "+environment.String()+" ")
	return &dispensary.ArgumentError{Field: name, Reason: reason, Err: argument.Err}
}
