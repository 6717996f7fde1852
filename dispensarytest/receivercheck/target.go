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

// Target describes the webhook endpoint to check. Secret, Challenge and either Handler or URL
// are required. All fields of Hooks, Features and Timing are optional. A case that needs an
// unset field is skipped, with a reason that names the field.
type Target struct {
	// Handler is the endpoint, or a router with the endpoint at Path. It is called without a
	// socket.
	Handler http.Handler

	// Path is the URL path of requests to Handler. "" means "/webhooks".
	Path string

	// URL is the URL of the endpoint on a running server. It replaces Handler.
	URL string

	// Client sends the requests to URL, for example with trust in a test certificate. It does
	// not follow redirects. Nil means [http.DefaultClient].
	Client *http.Client

	// Secret is the webhook secret key with which the endpoint verifies signatures. Challenge
	// is the challenge token of its responses.
	Secret, Challenge string

	// Cases selects cases by name, such as Bodies/Large. Nil selects all cases. The first case,
	// Signature/Valid, always runs, because no other case can judge an endpoint that fails it.
	// The section Always judges the responses in all cases. If you select one of its cases, the
	// unselected cases run too, but without a verdict.
	Cases *regexp.Regexp

	Hooks    Hooks
	Features Features
	Timing   Timing
}

// Hooks let the test observe the endpoint and cause failures in it. A nil hook skips the cases
// that need it.
type Hooks struct {
	// Handled returns the number of times that the event with this ID has been handled so far,
	// for all integrations together. The test polls it.
	Handled func(eventID string) int

	// EventType is the type of the events counted by Handled. "" means order.placed.
	EventType string

	// BlockHandler blocks the code that handles events until it is called with false.
	BlockHandler func(blocked bool)

	// BreakStorage makes the code that stores events fail until it is called with false.
	BreakStorage func(broken bool)

	// Logs returns the whole log of the endpoint so far.
	Logs func() string

	// WithoutSecret creates the endpoint without a configured secret. It returns an error if
	// the endpoint does not start without one.
	WithoutSecret func() (http.Handler, error)
}

// Features are optional inputs that an endpoint accepts although the API does not document them.
type Features struct {
	// OldSecret is a second accepted secret during a rotation. "" skips the case that needs it.
	OldSecret string

	// UnsignedProbe means that the endpoint acknowledges an empty body without a signature. If
	// it is false, the endpoint must reject such a body. The API does not document whether the
	// platform signs its probes.
	UnsignedProbe bool

	// OtherEnvelopes means that the endpoint accepts an event in two forms besides {"event":{…}},
	// the only documented form: in {"event_payload":{"event":{…}}}, as in the delivery log, and
	// without a wrapper. If it is false, these cases are skipped.
	OtherEnvelopes bool
}

// Timing contains the clock and the time limits of an endpoint. Negative durations are invalid.
type Timing struct {
	// Now returns the time of the endpoint's clock. Nil means [time.Now].
	Now func() time.Time

	// Tolerance is the maximum age of a signature, and its maximum time in the future. 0 means
	// 5 minutes, as the API recommends.
	Tolerance time.Duration

	// Timeout is the time that the platform waits for a response. 0 means 2 seconds, which is an
	// assumption.
	Timeout time.Duration

	// Patience is the maximum time until an event is handled. 0 means 10 seconds.
	Patience time.Duration

	// BodyTimeout is the time that the server waits for a body, such as its ReadTimeout. One case
	// waits for the same time. 0 skips it.
	BodyTimeout time.Duration
}

// requirement is an optional field of [Target] needed by a case.
type requirement struct {
	field, purpose string
	isSet          func(*Target) bool
}

var (
	needsBlockHandler  = &requirement{"Hooks.BlockHandler", "to block the handler", func(t *Target) bool { return t.Hooks.BlockHandler != nil }}
	needsBodyTimeout   = &requirement{"Timing.BodyTimeout", "the time that the server waits for a body", func(t *Target) bool { return t.Timing.BodyTimeout > 0 }}
	needsBreakStorage  = &requirement{"Hooks.BreakStorage", "to make the storage fail", func(t *Target) bool { return t.Hooks.BreakStorage != nil }}
	needsEnvelopes     = &requirement{"Features.OtherEnvelopes", "to send events in undocumented envelopes", func(t *Target) bool { return t.Features.OtherEnvelopes }}
	needsHandled       = &requirement{"Hooks.Handled", "to count the handlings of an event", func(t *Target) bool { return t.Hooks.Handled != nil }}
	needsLogs          = &requirement{"Hooks.Logs", "to search the log", func(t *Target) bool { return t.Hooks.Logs != nil }}
	needsOldSecret     = &requirement{"Features.OldSecret", "the second accepted secret during a rotation", func(t *Target) bool { return t.Features.OldSecret != "" }}
	needsWithoutSecret = &requirement{"Hooks.WithoutSecret", "to create the endpoint without its secret", func(t *Target) bool { return t.Hooks.WithoutSecret != nil }}
)

// missing returns the reason why a case cannot run, or "" if t has the needed field.
func (t *Target) missing(needed *requirement) string {
	if needed == nil || needed.isSet(t) {
		return ""
	}
	return fmt.Sprintf("needs Target.%s, %s", needed.field, needed.purpose)
}

// withDefaults validates t and sets the defaults of its unset fields.
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
		return wrong("", "needs either Handler or URL")
	case t.Secret == "":
		return wrong(".Secret", "is missing")
	case t.Challenge == "":
		return wrong(".Challenge", "is missing")
	case t.Secret == t.Challenge:
		return wrong(".Secret", "equals Challenge: the dashboard shows two different values, a secret key and a challenge token")
	case min(timing.BodyTimeout, timing.Patience, timing.Timeout, timing.Tolerance) < 0:
		return wrong(".Timing", "contains a negative duration")
	case t.Hooks.EventType != "" && !slices.Contains(known, t.Hooks.EventType):
		return wrong(".Hooks.EventType", "is not one of "+strings.Join(known, ", "))
	case !slices.ContainsFunc(cases(), t.selected):
		return wrong(".Cases", "matches no case")
	case t.Path != "" && !strings.HasPrefix(t.Path, "/"):
		return wrong(".Path", "must begin with a slash")
	}
	if t.URL == "" {
		return nil
	}
	if u, err := url.Parse(t.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return wrong(".URL", "is not an absolute HTTP URL")
	}
	return nil
}

// selected reports whether Cases selects a case.
func (t *Target) selected(tc testCase) bool { return t.Cases == nil || t.Cases.MatchString(tc.name) }

func wrong(path, reason string) error {
	return &api.ArgumentError{Field: "receivercheck.Target" + path, Reason: reason}
}
