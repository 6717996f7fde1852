// Package probe determines the undocumented behaviors of the API in your sandbox, so that the
// fake platform can behave the same in your tests.
//
// # A run
//
// [Run] sends at most [MaxRequests] requests, one after another. It never retries a request,
// because a retry could hide the observed behavior. It only runs on a sandbox, and calls
// Config.Confirm before the first request. If a lookup does not find a new record, it looks
// again for about a minute.
//
// A run creates two patients and seven treatment plans, and the API cannot delete them. The
// patients are named Dispensary-Probe plus a marker of the run, have addresses at example.com
// and get no welcome email. Before the end, the run cancels the plans if the platform allows
// it. It changes no existing record, but the first use of a clinic key activates its
// integration. The last requests revoke the authorization of Config.Token.
//
// # Findings
//
// Each point has one [Finding] with one of these verdicts:
//
//   - [Seen]: the requests with the listed ids show the variant.
//   - [NotObservable]: no request shows the variant, for example of webhook requests.
//   - [Ambiguous]: the responses match no known variant.
//
// Points about webhooks and events need earlier events in the sandbox. [Report.WriteBehaviors]
// writes the points with verdict [Seen]. On other points the fake platform uses its defaults.
//
// The package does not use the client of this module, because the client hides differences
// such as the status code of a success.
package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// Verdict is the result of observing a point.
type Verdict string

// The verdicts.
const (
	// Seen: the requests of the finding show the behavior.
	Seen Verdict = "seen"

	// NotObservable: requests cannot show the behavior at all, or not in this sandbox.
	NotObservable Verdict = "not observable"

	// Ambiguous: the responses match no variant, or more than one.
	Ambiguous Verdict = "ambiguous"
)

// Finding is the result for one undocumented behavior of the API.
type Finding struct {
	Point   string  `json:"point"`
	Verdict Verdict `json:"verdict"`

	// Variant is the observed behavior, by its name in the fake platform. It is empty unless
	// Verdict is [Seen].
	Variant string `json:"variant,omitempty"`

	// Why is the reason for a verdict other than [Seen]. With [Seen] it is empty, a measured
	// time, or the unobserved part.
	Why string `json:"why,omitempty"`

	// RequestIDs are the X-Request-Id values of the deciding responses, in order of the requests.
	RequestIDs []string `json:"request_ids,omitempty"`
}

// Record is a permanent record that a run created.
type Record struct {
	Kind string `json:"kind"` // "patient" or "treatment_plan"
	ID   string `json:"id"`
}

// Report is the result of a run. It contains no secrets. Its only patient data are the ids and
// the marker of created patients.
type Report struct {
	Environment string    `json:"environment"` // "us/sandbox"
	StartedAt   time.Time `json:"started_at"`
	Requests    int       `json:"requests"`

	// Marker is part of the name of each created patient. A search for it also finds patients
	// whose response was lost.
	Marker string `json:"marker"`

	// Findings has one entry for each point, sorted by name.
	Findings []Finding `json:"findings"`

	// Created lists the created records.
	Created []Record `json:"created,omitempty"`
}

// Behaviors returns the points with verdict [Seen] as sorted "point=variant" strings, for
// dispensarytest.WithBehavior.
func (r Report) Behaviors() []string {
	var all []string
	for _, f := range r.Findings {
		if f.Verdict == Seen {
			all = append(all, f.Point+"="+f.Variant)
		}
	}
	return all
}

// fileVersion is the version of the file of behaviors.
const fileVersion = 1

// WriteBehaviors writes the points with verdict [Seen] as a file for
// dispensarytest.WithBehaviorsFile and "dispensary fake --behaviors".
func (r Report) WriteBehaviors(w io.Writer) error {
	file := struct {
		Version   int      `json:"version"`
		Behaviors []string `json:"behaviors"`
	}{fileVersion, append([]string{}, r.Behaviors()...)}
	content, err := json.MarshalIndent(file, "", "  ")
	if err == nil {
		_, err = w.Write(append(content, '\n'))
	}
	return err
}
