package control

import "github.com/dispensary-go/dispensary/dispensarytest"

// Settings is all that an integrator has to know of a platform. Everything in it
// is made up, and protects nothing.
type Settings struct {
	BaseURL        string        `json:"base_url"`        // of the API, with its /api prefix
	AuthURL        string        `json:"auth_url"`        // of the pages that users are sent to
	ConsoleURL     string        `json:"console_url"`     // for people; empty without a console
	ControlURL     string        `json:"control_url"`     // of the control API
	ClientID       string        `json:"client_id"`       // of the application
	ClientSecret   string        `json:"client_secret"`   // of the application
	RedirectURI    string        `json:"redirect_uri"`    // where users come back to
	WebhookSecret  string        `json:"webhook_secret"`  // key of the webhooks' signatures
	ChallengeToken string        `json:"challenge_token"` // what an endpoint answers with
	ClinicKey      string        `json:"clinic_key"`      // for the header X-SVC-Clinic-Key
	Users          []SettingsFor `json:"users"`           // who can sign in
}

// SettingsFor is somebody who can sign in on the platform's pages.
type SettingsFor struct {
	Email    string `json:"email"`
	Password string `json:"password"`
	Type     string `json:"type"` // Practitioner or Staff
	ID       string `json:"id"`   // of the practitioner or member of staff
}

// Settings returns the settings of the handler's platform.
func (h *Handler) Settings() Settings {
	app := h.fake.Application()
	settings := Settings{
		BaseURL: h.fake.BaseURL(), AuthURL: h.fake.AuthURL(),
		ConsoleURL: h.options.ConsoleURL, ControlURL: h.options.ControlURL,
		ClientID: app.ClientID, ClientSecret: app.ClientSecret, RedirectURI: app.RedirectURI,
		WebhookSecret: app.WebhookSecret, ChallengeToken: app.ChallengeToken, ClinicKey: h.fake.ClinicKey(),
	}
	for _, u := range h.fake.Users() {
		settings.Users = append(settings.Users, SettingsFor{Email: u.Email, Password: u.Password, Type: u.Type, ID: u.ID})
	}
	return settings
}

// userLike finds somebody who can sign in, by id or e-mail address; nobody named
// is the first practitioner.
func (c *call) userLike(name string) (dispensarytest.User, error) {
	for _, u := range c.fake.Users() {
		if name == "" || name == u.ID || name == u.Email {
			return u, nil
		}
	}
	return dispensarytest.User{}, &problem{status: 404, message: "nobody who can sign in has the id or e-mail address " + name}
}
