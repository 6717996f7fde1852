package probe

import (
	"errors"
	"fmt"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

// MaxRequests is how many requests a run sends at most; about 70 are usual.
const MaxRequests = 300

// ErrNotSandbox says that the site is not a sandbox. Nothing was sent: a run creates
// records that cannot be removed, and ends a user's authorization.
var ErrNotSandbox = errors.New("probe: only a sandbox is probed")

// ErrDeclined says that Config.Confirm returned false. Nothing was sent.
var ErrDeclined = errors.New("probe: it was not confirmed")

// Config describes a run. Application, Token and Confirm are required.
type Config struct {
	// Application is the integrator's registration in a sandbox, and the way to it.
	Application oauth.Config

	// Token is the authorization of a user whom the run may use up: where it has a
	// refresh token, the run ends by revoking it. It should have all scopes of the
	// application, and be a practitioner's.
	Token oauth.Token

	// Spare is the authorization of another user, or another one of the same user, to be
	// revoked too. It is optional: where refresh tokens can be revoked, how far revoking
	// an access token reaches shows only with it.
	Spare oauth.Token

	// Narrow is an access token without the scope patients:read, of the same clinic. It is
	// optional: the status for a missing scope shows only with it. It is not used up.
	Narrow api.Secret

	// ClinicKey is sent with every request but the first ones, which find out whether it
	// has to be. It is optional.
	ClinicKey api.Secret

	// Confirm reports whether to go on. It is called once, before the first request.
	Confirm func(Plan) bool
}

// Plan is what a run is about to do.
type Plan struct {
	Environment string   `json:"environment"`
	MaxRequests int      `json:"max_requests"`
	Creates     []string `json:"creates"` // records, which stay: the API deletes nothing
	Ends        []string `json:"ends"`    // authorizations
}

// plan is what is created and ended, whatever the platform answers.
func (c *Config) plan(marker string) Plan {
	p := Plan{
		Environment: c.Application.Site.Environment.String(),
		MaxRequests: MaxRequests,
		Creates: []string{
			fmt.Sprintf("2 patients named %q, with addresses at example.com and without a welcome e-mail", surname+" "+marker),
			"5 treatment plans of these patients, and 2 drafts without a patient; they are canceled in the end where the platform allows it",
		},
	}
	if !c.Token.RefreshToken.IsZero() {
		p.Ends = append(p.Ends, "the authorization of the user, who has to authorize again")
	}
	if !c.Spare.AccessToken.IsZero() {
		p.Ends = append(p.Ends, "the authorization of the user of --spare, who has to authorize again")
	}
	return p
}

// surname is that of all patients that are created.
const surname = "Dispensary-Probe"
