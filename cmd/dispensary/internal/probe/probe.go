package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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

	// Narrow is a token without the scope patients:read, of the same clinic. It is
	// optional: the status for a missing scope shows only with it. It is not used up.
	Narrow api.AccessToken

	// ClinicKey is sent with every request but the first ones, which find out whether it
	// has to be. It is optional.
	ClinicKey api.Secret

	// Confirm is asked once, before anything is sent, and says whether to go on.
	Confirm func(ctx context.Context, plan Plan) bool
}

// Plan is what a run is about to do.
type Plan struct {
	Environment string   `json:"environment"`
	MaxRequests int      `json:"max_requests"`
	Creates     []string `json:"creates"` // records, which stay: the API deletes nothing
	Ends        []string `json:"ends"`    // authorizations
}

// validate reports everything that is wrong.
func (c *Config) validate() error {
	var problems api.ArgumentErrors
	complain := func(field, reason string, err error) {
		problems = append(problems, &api.ArgumentError{Field: "probe.Config." + field, Reason: reason, Err: err})
	}
	if c.Confirm == nil {
		complain("Confirm", "is missing", nil)
	}
	if c.Token.AccessToken.IsZero() {
		complain("Token", "has no access token", nil)
	}
	environment := c.Application.Site.Environment
	for _, token := range []struct {
		field       string
		secret      api.Secret
		environment api.Environment
	}{
		{"Token", c.Token.AccessToken, c.Token.Environment},
		{"Spare", c.Spare.AccessToken, c.Spare.Environment},
		{"Narrow", c.Narrow.Secret, c.Narrow.Environment},
	} {
		if !token.secret.IsZero() && token.environment != environment {
			complain(token.field, fmt.Sprintf("is of %s, and not of %s", token.environment, environment), api.ErrWrongEnvironment)
		}
	}
	if !c.Spare.AccessToken.IsZero() && (c.Spare.RefreshToken.IsZero() || c.Spare.AccessToken == c.Token.AccessToken) {
		complain("Spare", "has to be an authorization of its own, with a refresh token", nil)
	}
	return problems.Err()
}

// plan is what is created and ended, whatever the platform answers.
func (c *Config) plan(marker string) Plan {
	p := Plan{
		Environment: c.Application.Site.Environment.String(),
		MaxRequests: MaxRequests,
		Creates: []string{
			fmt.Sprintf("2 patients named %q, with addresses at example.com and without a welcome e-mail", surname+" "+marker),
			"5 treatment plans of these patients, and 2 drafts without a patient; they are cancelled in the end where the platform allows it",
		},
	}
	if !c.Token.RefreshToken.IsZero() {
		p.Ends = append(p.Ends, "the authorization that Token is of: the user has to authorize again")
	}
	if !c.Spare.AccessToken.IsZero() {
		p.Ends = append(p.Ends, "the authorization that Spare is of: the user has to authorize again")
	}
	return p
}

// Run finds out how a sandbox behaves. It returns what it has found also with an error:
// where a request gets no answer, or ctx ends, what was not looked at yet is ambiguous.
//
// Errors before anything is sent are [ErrNotSandbox], [ErrDeclined], and those that match
// [api.ErrInvalidArgument].
func Run(ctx context.Context, c Config) (Report, error) {
	if c.Application.Site.Environment.Stage != api.Sandbox {
		return Report{}, ErrNotSandbox
	}
	if _, err := oauth.New(c.Application); err != nil {
		return Report{}, err
	}
	if err := c.validate(); err != nil {
		return Report{}, err
	}
	s := newSession(ctx, c)
	if !c.Confirm(ctx, c.plan(s.marker)) {
		return Report{}, ErrDeclined
	}
	report := Report{Environment: c.Application.Site.Environment.String(), Marker: s.marker, StartedAt: time.Now().UTC().Truncate(time.Second)}
	report.Findings = append(s.look(recordPoints()), s.look(logPoints())...)
	s.cancelPlans()
	report.Findings = append(report.Findings, s.look(tokenPoints())...)
	slices.SortFunc(report.Findings, func(a, b Finding) int { return strings.Compare(a.Point, b.Point) })
	report.Created, report.Requests = s.created, s.sent
	if errors.Is(s.err, errLimit) {
		return report, nil // the findings say so
	}
	return report, s.err
}

// point is one that the API leaves open.
type point struct {
	name     string
	variants []string // the first is what the fake platform does unless told otherwise
	observe  func(*session) Finding
}

// look observes some points, in their order.
func (s *session) look(points []point) []Finding {
	var all []Finding
	for _, p := range points {
		f := p.observe(s)
		if s.err != nil && f.Verdict != NotObservable {
			why := "a request before got no answer"
			if errors.Is(s.err, errLimit) {
				why = s.err.Error()
			}
			f = ambiguous(why)
		}
		if f.Verdict == Seen && !slices.Contains(p.variants, f.Variant) {
			f.Verdict, f.Why, f.Variant = Ambiguous, f.Variant+" is none of the known variants", ""
		}
		f.Point = p.name
		all = append(all, f)
	}
	return all
}

// notObservable are points that no request shows.
func notObservable(name, why string, variants ...string) point {
	return point{name, variants, func(*session) Finding { return hidden(why) }}
}
