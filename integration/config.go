package integration

import (
	"strings"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/oauth"
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
	// [seal.ParseKeyRing]: for each key an id and 32 random bytes in base64, newest first. It is
	// required unless both are in memory.
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
