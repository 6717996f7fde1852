package integration

import (
	"strings"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/oauth"
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
	// process to 5,000 requests in 5 minutes.
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

// names is where a configuration comes from, and what its settings are called there.
type names int

const (
	fromGo names = iota
	fromVariables
	fromFile
)
