package model

import "time"

// Token is a live pair of tokens.
type Token struct {
	ID           string // names the token in the journal
	AccessToken  string
	RefreshToken string
	Scopes       []string
	CreatedAt    time.Time
	ExpiresAt    time.Time
	User         User
}

// Credential is a token or an authorization code as the platform knows it.
type Credential struct {
	Kind      string // "access_token", "refresh_token" or "code"
	Value     string
	TokenID   string // names an access token in the journal; empty for others
	User      User
	Scopes    []string
	ExpiresAt time.Time // zero for refresh tokens, which do not expire

	// Refusal is why the platform would refuse it now; empty while it is good.
	Refusal string
}

// Application is the integrator's registration in the developer dashboard.
// API section: "Authentication" 2.
type Application struct {
	Name           string
	ClientID       string
	ClientSecret   string
	RedirectURI    string
	Scopes         []string
	WebhookSecret  string // key of the signatures
	ChallengeToken string // what a webhook endpoint answers with
}
