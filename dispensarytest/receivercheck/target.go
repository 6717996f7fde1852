package receivercheck

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Target is an endpoint for webhooks that is to be checked. Handler or URL, Secret
// and Challenge are required. Everything in Hooks, Features and Timing is optional:
// a case that needs a field which is not set is skipped, with a line that names it.
type Target struct {
	// Handler is the endpoint, or a router with the endpoint at Path. It is
	// called without a socket.
	Handler http.Handler

	// Path is where Handler is called; "" means "/webhooks".
	Path string

	// URL is the endpoint of a running server, in place of Handler.
	URL string

	// Client makes the requests to URL, for example trusting a test
	// certificate; nil means [http.DefaultClient]. Redirects are not followed.
	Client *http.Client

	// Secret is the webhook secret key that the endpoint verifies with, and
	// Challenge the challenge token that it answers with.
	Secret, Challenge string

	// Cases selects cases by their names, such as Bodies/Large; nil selects all. The first,
	// Signature/Valid, always runs, because no other case can judge an endpoint that fails
	// it. The section Always judges the responses in all cases, so a selected case of it
	// also runs the cases that are not selected, and reports no verdict for them.
	Cases *regexp.Regexp

	Hooks    Hooks
	Features Features
	Timing   Timing
}

// Hooks let the checks look into the endpoint and disturb it.
type Hooks struct {
	// Handled returns how often the event with an id has been handled so far,
	// for all integrations together. It is polled.
	Handled func(eventID string) int

	// EventType is the type of the events that Handled counts; "" means
	// order.placed.
	EventType string

	// BlockHandler makes the code that handles events wait, until it is called
	// with false.
	BlockHandler func(blocked bool)

	// BreakStorage makes the code that stores events fail, until it is called
	// with false.
	BreakStorage func(broken bool)

	// Logs returns everything that the endpoint has logged so far.
	Logs func() string

	// WithoutSecret makes the endpoint as it is where its secret was not
	// configured, or returns the error that it fails with.
	WithoutSecret func() (http.Handler, error)
}

// Features are what an endpoint is meant to accept beyond what the API documents.
type Features struct {
	// OldSecret is accepted as Secret is, while the secret is rotated.
	OldSecret string

	// UnsignedProbe says that the endpoint answers an empty body that is not
	// signed. Whether the platform signs its probes is not documented.
	UnsignedProbe bool

	// OtherEnvelopes says that the endpoint finds an event that does not come as
	// {"event":{…}}, the only form that the API documents: one in
	// {"event_payload":{"event":{…}}}, as the delivery log has it, and one without
	// a wrapper.
	OtherEnvelopes bool
}

// Timing says how long things take, and by which clock.
type Timing struct {
	// Now is the endpoint's clock; nil means [time.Now].
	Now func() time.Time

	// Tolerance is how old, or how far in the future, a signature may be; 0
	// means 5 minutes, as the API recommends.
	Tolerance time.Duration

	// Timeout is how long the platform waits for an answer; 0 means 2 seconds,
	// an assumption.
	Timeout time.Duration

	// Patience is how long an event may take to be handled; 0 means 10 seconds.
	Patience time.Duration

	// BodyTimeout is how long the server waits for a body, its ReadTimeout. A
	// case waits for that long.
	BodyTimeout time.Duration
}

// requirement is an optional field of [Target] that a case needs.
type requirement struct {
	field, purpose string
	isSet          func(*Target) bool
}

var (
	needsBlockHandler  = &requirement{"Hooks.BlockHandler", "which makes the handling of events wait", func(t *Target) bool { return t.Hooks.BlockHandler != nil }}
	needsBodyTimeout   = &requirement{"Timing.BodyTimeout", "how long the server waits for a body", func(t *Target) bool { return t.Timing.BodyTimeout > 0 }}
	needsBreakStorage  = &requirement{"Hooks.BreakStorage", "which makes the storing of events fail", func(t *Target) bool { return t.Hooks.BreakStorage != nil }}
	needsEnvelopes     = &requirement{"Features.OtherEnvelopes", "which says that events are found in envelopes that the API does not document", func(t *Target) bool { return t.Features.OtherEnvelopes }}
	needsHandled       = &requirement{"Hooks.Handled", "which tells how often an event was handled", func(t *Target) bool { return t.Hooks.Handled != nil }}
	needsLogs          = &requirement{"Hooks.Logs", "which returns what was logged", func(t *Target) bool { return t.Hooks.Logs != nil }}
	needsOldSecret     = &requirement{"Features.OldSecret", "the second secret that is accepted while one is rotated", func(t *Target) bool { return t.Features.OldSecret != "" }}
	needsWithoutSecret = &requirement{"Hooks.WithoutSecret", "which makes the endpoint without its secret", func(t *Target) bool { return t.Hooks.WithoutSecret != nil }}
)

// missing returns the reason that a case cannot run, or "" if t has the field it needs.
func (t *Target) missing(needed *requirement) string {
	if needed == nil || needed.isSet(t) {
		return ""
	}
	return fmt.Sprintf("needs Target.%s, %s", needed.field, needed.purpose)
}

// withDefaults checks t and fills in what was left out.
func (t Target) withDefaults() (Target, error) {
	if err := t.validate(); err != nil {
		return t, err
	}
	t.Path = cmp.Or(t.Path, "/webhooks")
	t.Hooks.EventType = cmp.Or(t.Hooks.EventType, model.EventOrderPlaced)
	t.Client = cmp.Or(t.Client, http.DefaultClient)
	if t.Timing.Now == nil {
		t.Timing.Now = time.Now
	}
	t.Timing.Patience = cmp.Or(t.Timing.Patience, 10*time.Second)
	t.Timing.Timeout = cmp.Or(t.Timing.Timeout, 2*time.Second)
	t.Timing.Tolerance = cmp.Or(t.Timing.Tolerance, 5*time.Minute)
	return t, nil
}

func (t *Target) validate() error {
	known := model.EventTypes()
	timing := t.Timing
	switch {
	case (t.Handler == nil) == (t.URL == ""):
		return wrong("", "needs one of Handler and URL")
	case t.Secret == "":
		return wrong(".Secret", "is missing")
	case t.Challenge == "":
		return wrong(".Challenge", "is missing")
	case t.Secret == t.Challenge:
		return wrong(".Secret", "equals Challenge: the dashboard shows a secret key and a challenge token, which differ")
	case min(timing.BodyTimeout, timing.Patience, timing.Timeout, timing.Tolerance) < 0:
		return wrong(".Timing", "holds a negative duration")
	case t.Hooks.EventType != "" && !slices.Contains(known, t.Hooks.EventType):
		return wrong(".Hooks.EventType", "is not one of "+strings.Join(known, ", "))
	case !slices.ContainsFunc(cases(), t.selected):
		return wrong(".Cases", "matches no case")
	case t.Path != "" && !strings.HasPrefix(t.Path, "/"):
		return wrong(".Path", "does not begin with a slash")
	}
	if t.URL == "" {
		return nil
	}
	if u, err := url.Parse(t.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return wrong(".URL", "is not an absolute HTTP address")
	}
	return nil
}

// selected reports whether Cases selects a case.
func (t *Target) selected(tc testCase) bool { return t.Cases == nil || t.Cases.MatchString(tc.name) }

func wrong(path, reason string) error {
	return &api.ArgumentError{Field: "receivercheck.Target" + path, Reason: reason}
}
