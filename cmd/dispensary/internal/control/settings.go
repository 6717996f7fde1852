package control

import "github.com/dispensary-go/dispensary/dispensarytest"

// Options configures a [Handler]. The zero value is valid.
type Options struct {
	// ControlURL and ConsoleURL are the URLs of this API and the console. They only appear in
	// [Settings]. Both may be empty.
	ControlURL string
	ConsoleURL string
}

// Settings contains the URLs, credentials and accounts of a fake platform. All secrets are
// generated and protect no real data.
type Settings struct {
	BaseURL        string         `json:"base_url"`        // of the API, with its /api prefix
	AuthURL        string         `json:"auth_url"`        // of the authorization pages
	ConsoleURL     string         `json:"console_url"`     // for browsers, empty without a console
	ControlURL     string         `json:"control_url"`     // of the control API
	ClientID       string         `json:"client_id"`       // of the application
	ClientSecret   string         `json:"client_secret"`   // of the application
	RedirectURI    string         `json:"redirect_uri"`    // where users return after authorizing
	WebhookSecret  string         `json:"webhook_secret"`  // signs the webhooks
	ChallengeToken string         `json:"challenge_token"` // returned by a webhook endpoint
	ClinicKey      string         `json:"clinic_key"`      // for the header X-SVC-Clinic-Key
	Users          []SettingsUser `json:"users"`           // with passwords, for the sign-in page
}

// SettingsUser is a user of the fake platform's sign-in page.
type SettingsUser struct {
	Email    string `json:"email"`
	Password string `json:"password"`
	Type     string `json:"type"` // Practitioner or Staff
	ID       string `json:"id"`   // of the practitioner or staff member
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
