package control

import "github.com/dispensary-go/dispensary/dispensarytest"

// Options sets up a [Handler]; the zero value will do.
type Options struct {
	// ControlURL and ConsoleURL are where this API and a console stand, for
	// [Settings].
	ControlURL string
	ConsoleURL string
}

// Settings is all that an integrator has to know of a platform. Everything in it
// is made up, and protects nothing.
type Settings struct {
	BaseURL        string         `json:"base_url"`        // of the API, with its /api prefix
	AuthURL        string         `json:"auth_url"`        // of the pages that users are sent to
	ConsoleURL     string         `json:"console_url"`     // for people; empty without a console
	ControlURL     string         `json:"control_url"`     // of the control API
	ClientID       string         `json:"client_id"`       // of the application
	ClientSecret   string         `json:"client_secret"`   // of the application
	RedirectURI    string         `json:"redirect_uri"`    // where users come back to
	WebhookSecret  string         `json:"webhook_secret"`  // key of the webhooks' signatures
	ChallengeToken string         `json:"challenge_token"` // what an endpoint answers with
	ClinicKey      string         `json:"clinic_key"`      // for the header X-SVC-Clinic-Key
	Users          []SettingsUser `json:"users"`           // those who can sign in
}

// SettingsUser is a user who can sign in on the platform's pages.
type SettingsUser struct {
	Email    string `json:"email"`
	Password string `json:"password"`
	Type     string `json:"type"` // Practitioner or Staff
	ID       string `json:"id"`   // of the practitioner or member of staff
}

func settingsOf(fake *dispensarytest.Server, options Options) Settings {
	app := fake.Application()
	settings := Settings{
		BaseURL: fake.Site().BaseURL, AuthURL: fake.Site().AuthURL, ConsoleURL: options.ConsoleURL, ControlURL: options.ControlURL,
		ClientID: app.ClientID, ClientSecret: app.ClientSecret, RedirectURI: app.RedirectURI,
		WebhookSecret: app.WebhookSecret, ChallengeToken: app.ChallengeToken, ClinicKey: fake.ClinicKey(),
	}
	for _, u := range fake.Users() {
		settings.Users = append(settings.Users, SettingsUser{Email: u.Email, Password: u.Password, Type: u.Type, ID: u.ID})
	}
	return settings
}
