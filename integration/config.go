package integration

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/internal/environ"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

// Config contains the settings of an integration. [Load] and [LoadFile] read it, or you write it
// in Go. Printing or encoding it shows no secret.
type Config struct {
	// Applications are your applications in the developer dashboards, one for each environment.
	Applications []Application

	// Store is the URL of the database for the tokens of all users:
	//
	//	postgres://user:password@host/database
	//	mysql:user:password@tcp(host:3306)/database    or MariaDB, as in its Go driver
	//	sqlite:/var/lib/ehr/dispensary.db
	//	memory:                                        for tests and sandboxes
	Store dispensary.Secret

	// Inbox is the URL of the database for webhook events and the checkpoints of reconcilers:
	// postgres with River as the queue for any number of replicas, sqlite for one process, or
	// memory. It may equal Store. It is required if an application receives webhooks. The pool
	// of postgres has 4 more connections than Work.Workers, unless pool_max_conns sets its size.
	Inbox dispensary.Secret

	// SealKeys encrypts the tokens in Store and the events in Inbox. It has the form of
	// [seal.ParseKeyRing]: for each key an id and 32 random bytes in base64, newest first. In tests it
	// is the Text of [seal.GenerateKey]. It is required unless both are in memory.
	SealKeys dispensary.Secret

	// StateKeys sign the state of the browser flow: see [connect.Config]. They are required for a
	// browser flow.
	StateKeys []dispensary.Secret

	names names
	files []string // files with secrets that were read
}

// Application is one application in one environment, as in the developer dashboard. Site,
// ClientID, ClientSecret and RedirectURL are required.
type Application struct {
	// Site is the environment with its two URLs.
	Site dispensary.Site

	// ClientID, ClientSecret, RedirectURL and Scopes are as in [oauth.Config].
	ClientID     string
	ClientSecret dispensary.Secret
	RedirectURL  string
	Scopes       []string

	// WebhookSecrets are the secrets that verify webhooks, two during a rotation, and
	// WebhookChallenge is the challenge token: see [webhook.HandlerConfig]. If both are empty,
	// the application receives no webhooks.
	WebhookSecrets   []dispensary.Secret
	WebhookChallenge dispensary.Secret

	// ClinicKey is sent with every call. If it is empty, calls send none. The first call with
	// the key activates the integration. Until then the platform sends no webhooks. If clinics
	// have their own keys, see [accounts.Config].
	// API section: "Authentication" 9.
	ClinicKey dispensary.Secret

	// RateLimit is the application's limit of requests in any period, in the form 5000/5m. The
	// period is at least 1 second. The limit covers all calls of the users' clients, token
	// requests and background work. Processes share it if Store is postgres, or with
	// [Setup].RateLimitStore. Otherwise each process has the whole limit. Empty limits each
	// process to 5,000 requests in 5 minutes.
	RateLimit string
}

// Name returns the name of the application in paths and logs: region and stage, such as
// "us-sandbox".
func (a Application) Name() string {
	return strings.ReplaceAll(a.Site.Environment.String(), "/", "-")
}

// receives reports whether the application receives webhooks.
func (a Application) receives() bool {
	return len(a.WebhookSecrets) > 0 || !a.WebhookChallenge.IsZero()
}

// oauth adds the application's settings to the shared configuration.
func (a Application) oauth(shared oauth.Config) oauth.Config {
	shared.Site, shared.ClientID, shared.ClientSecret = a.Site, a.ClientID, a.ClientSecret
	shared.RedirectURL, shared.Scopes = a.RedirectURL, a.Scopes
	return shared
}

// names is the source of a configuration, and thus the form of its setting names.
type names int

const (
	fromGo names = iota
	fromVariables
	fromFile
)

// WithoutWebhooks returns c without an inbox and the secrets of webhooks, for a process that only
// calls the API: a job beside the service with the same configuration, or a command.
func (c Config) WithoutWebhooks() Config {
	c.Inbox = dispensary.Secret{}
	c.Applications = slices.Clone(c.Applications)
	for i := range c.Applications {
		c.Applications[i].WebhookSecrets, c.Applications[i].WebhookChallenge = nil, dispensary.Secret{}
	}
	return c
}

// Check reports all missing and invalid settings. It opens no file or database and sends no
// request. Each problem is an [*api.ArgumentError] with the name of the variable, the key of the
// file or the Go field. It never repeats a value.
func (c Config) Check() error {
	var problems []error
	if len(c.Applications) == 0 {
		problems = append(problems, c.problem(c.names.environments(), "is empty: no environment is configured, such as us/sandbox"))
	}
	environments := map[dispensary.Environment]bool{}
	for i := range c.Applications {
		a := &c.Applications[i]
		if environments[a.Site.Environment] {
			problems = append(problems, c.problem(c.names.environments(), "contains two applications of "+a.Site.Environment.String()))
		}
		environments[a.Site.Environment] = true
		problems = append(problems, c.checkApplication(*a)...)
	}
	for i, key := range c.StateKeys {
		if len(key.Reveal()) < defaults.StateKeySize {
			problems = append(problems, c.problem(fmt.Sprintf("%s[%d]", c.name("state_keys"), i), fmt.Sprintf("is shorter than %d bytes", defaults.StateKeySize)))
		}
	}
	return errors.Join(append(problems, c.checkStorage()...)...)
}

// checkApplication creates the parts of an application as [Open] does, and returns their errors.
func (c Config) checkApplication(a Application) []error {
	_, err := oauth.New(a.oauth(oauth.Config{}))
	if a.receives() && a.Site.Environment.Validate() == nil { // oauth.New has reported an invalid environment
		_, rejected := webhook.NewTenant(webhook.TenantConfig{
			Environment: a.Site.Environment, Secrets: a.WebhookSecrets, Challenge: a.WebhookChallenge,
		})
		err = errors.Join(err, rejected)
	}
	if !a.ClinicKey.IsZero() && a.Site.Validate() == nil { // likewise
		_, rejected := dispensary.New(a.Site, dispensary.WithClinicKey(a.ClinicKey))
		err = errors.Join(err, rejected)
	}
	problems := environ.Errors(err)
	for i, problem := range problems {
		problems[i] = c.renamed(a.Site.Environment, problem)
	}
	if _, _, problem := parseRateLimit(a.RateLimit); problem != "" {
		problems = append(problems, c.problem(c.names.of(a.Site.Environment, "rate_limit"), problem))
	}
	return problems
}

// checkStorage checks the URLs of store and inbox and their encryption keys.
func (c Config) checkStorage() []error {
	var problems []error
	durable, needed := false, !c.Inbox.IsZero()
	for i := range c.Applications {
		needed = needed || c.Applications[i].receives()
	}
	for _, one := range []struct {
		key     string
		address dispensary.Secret
		inbox   bool
		needed  bool
	}{
		{"store", c.Store, false, true},
		{"inbox", c.Inbox, true, needed},
	} {
		if !one.needed {
			continue
		}
		at, problem := parseAddress(one.address, one.inbox)
		if problem == "" && !at.durable() && c.live() {
			problem = "must not be memory: in production, because the data ends with the process"
		}
		if problem != "" {
			problems = append(problems, c.problem(c.name(one.key), problem))
		}
		durable = durable || at.durable()
	}
	switch _, err := seal.ParseKeyRing(c.SealKeys); {
	case c.SealKeys.IsZero() && durable:
		problems = append(problems, c.problem(c.name("seal_keys"), "is empty, but tokens and events are stored encrypted"))
	case !c.SealKeys.IsZero() && err != nil:
		problems = append(problems, c.unusableKeys(err))
	}
	return problems
}

// live reports whether an environment is in production.
func (c Config) live() bool {
	for i := range c.Applications {
		if !c.Applications[i].Site.Environment.IsSandbox() {
			return true
		}
	}
	return false
}

// name returns the name of a setting of all applications, in the form of the configuration's
// source.
func (c Config) name(key string) string { return c.names.of("", key) }

func (c Config) problem(name, reason string) error {
	return &api.ArgumentError{Field: name, Reason: reason}
}

// unusableKeys returns an error of the encryption keys as an error of their setting.
func (c Config) unusableKeys(err error) error {
	return c.problem(c.name("seal_keys"), "cannot be used: "+strings.TrimPrefix(err.Error(), "dispensary: "))
}

// keys maps field names in errors of constructors to settings of an application.
var keys = map[string]string{
	"Site.BaseURL": "base_url", "Site.AuthURL": "auth_url", "ClinicKey": "clinic_key", "WithClinicKey(key)": "clinic_key",
	"oauth.Config.ClientID": "client_id", "oauth.Config.ClientSecret": "client_secret",
	"oauth.Config.RedirectURL": "redirect_url", "oauth.Config.Scopes": "scopes",
	"webhook.TenantConfig.Secrets": "webhook_secrets", "webhook.TenantConfig.Challenge": "webhook_challenge",
}

// renamed returns the error of a constructor with the name of the setting instead of the field.
func (c Config) renamed(environment dispensary.Environment, err error) error {
	var argument *api.ArgumentError
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
	return &api.ArgumentError{Field: name, Reason: reason, Err: argument.Err}
}

// parseRateLimit parses [Application].RateLimit. problem is "" if text is valid.
func parseRateLimit(text string) (requests int, per time.Duration, problem string) {
	if text == "" {
		return defaults.Requests, defaults.Per, ""
	}
	number, period, _ := strings.Cut(text, "/")
	requests, err := strconv.Atoi(number)
	if err == nil {
		per, err = time.ParseDuration(period)
	}
	if err != nil || requests < 1 || per < time.Second {
		return 0, 0, "must be a number of requests and a period of at least 1 second, such as 5000/5m"
	}
	return requests, per, ""
}

// sharesLimits reports whether an application has a rate limit to share with other processes.
func (c Config) sharesLimits() bool {
	return slices.ContainsFunc(c.Applications, func(a Application) bool { return a.RateLimit != "" })
}
