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

// MaxRequests is the maximum number of requests of a run. A usual run sends about 70.
const MaxRequests = 300

// ErrNotSandbox means that the environment is not a sandbox. Run sent no request, because it
// creates records that cannot be deleted and revokes an authorization.
var ErrNotSandbox = errors.New("probe: the environment must be a sandbox")

// ErrDeclined means that Config.Confirm returned false. Run sent no request.
var ErrDeclined = errors.New("probe: not confirmed")

// Config configures a run. Application, Token and Confirm are required.
type Config struct {
	// Application contains the credentials, the sandbox and the transport of the application.
	Application oauth.Config

	// Token is an authorization that the run may revoke. If it has a refresh token, the run
	// revokes it at the end. It should belong to a practitioner and have all scopes of the
	// application.
	Token oauth.Token

	// Spare is another authorization to revoke, of the same or another user. It is optional. If
	// the platform can revoke refresh tokens, only Spare can show how much the revocation of an
	// access token invalidates.
	Spare oauth.Token

	// Narrow is an access token of the same clinic without the scope patients:read. It is
	// optional. Only Narrow can show the status for a missing scope. The run does not revoke it.
	Narrow api.Secret

	// ClinicKey is sent with all requests except the first ones, which test whether it is needed.
	// It is optional.
	ClinicKey api.Secret

	// Confirm reports whether to start the run. It is called once, before the first request.
	Confirm func(Plan) bool

	// Sleep waits between two lookups of a new record. Nil waits in real time.
	Sleep func(ctx context.Context, d time.Duration) error
}

func (c *Config) sleep(ctx context.Context, d time.Duration) error {
	if c.Sleep != nil {
		return c.Sleep(ctx, d)
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Plan describes the effects of a run before it starts.
type Plan struct {
	Environment string   `json:"environment"`
	MaxRequests int      `json:"max_requests"`
	Creates     []string `json:"creates"` // permanent records, because the API cannot delete any
	Ends        []string `json:"ends"`    // authorizations to revoke
}

// plan returns the records to create and the authorizations to revoke. It does not depend on
// the platform's responses.
func (c *Config) plan(marker string) Plan {
	p := Plan{
		Environment: c.Application.Site.Environment.String(),
		MaxRequests: MaxRequests,
		Creates: []string{
			fmt.Sprintf("2 patients named %q, with addresses at example.com and without a welcome e-mail", surname+" "+marker),
			"5 treatment plans of these patients and 2 drafts without a patient, canceled at the end if the platform allows it",
		},
	}
	if !c.Token.RefreshToken.IsZero() {
		p.Ends = append(p.Ends, "the authorization of the user: connect the user again afterwards")
	}
	if !c.Spare.AccessToken.IsZero() {
		p.Ends = append(p.Ends, "the authorization of the user of --spare: connect the user again afterwards")
	}
	return p
}

// surname is the first part of the last name of each created patient.
const surname = "Dispensary-Probe"

// Run observes the behavior of a sandbox. If a request gets no response or ctx is canceled, it
// returns its results so far with the error. The remaining points are then [Ambiguous], unless
// no request can show them.
//
// Before the first request, Run returns [ErrNotSandbox] or [ErrDeclined].
func Run(ctx context.Context, c Config) (Report, error) {
	if !c.Application.Site.Environment.IsSandbox() {
		return Report{}, ErrNotSandbox
	}
	s := newSession(ctx, c)
	if !c.Confirm(c.plan(s.marker)) {
		return Report{}, ErrDeclined
	}
	report := Report{Environment: c.Application.Site.Environment.String(), Marker: s.marker, StartedAt: time.Now().UTC().Truncate(time.Second)}
	report.Findings = s.look(slices.Concat(recordPoints(), listPoints(), planPoints(), logPoints()))
	s.cancelPlans()
	report.Findings = append(report.Findings, s.look(tokenPoints())...)
	slices.SortFunc(report.Findings, func(a, b Finding) int { return strings.Compare(a.Point, b.Point) })
	report.Created, report.Requests = s.created, s.sent
	if errors.Is(s.err, errLimit) {
		return report, nil // the findings contain this error
	}
	return report, s.err
}

// look observes points in order.
func (s *session) look(points []point) []Finding {
	var all []Finding
	for _, p := range points {
		f := p.observe(s)
		if s.err != nil && f.Verdict != NotObservable {
			why := "an earlier request got no response"
			if errors.Is(s.err, errLimit) {
				why = s.err.Error()
			}
			f = ambiguous(why)
		}
		if f.Verdict == Seen && !slices.Contains(p.variants, f.Variant) {
			f.Verdict, f.Why, f.Variant = Ambiguous, f.Variant+" is not a known variant", ""
		}
		f.Point = p.name
		all = append(all, f)
	}
	return all
}
