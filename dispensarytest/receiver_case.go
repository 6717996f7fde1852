package dispensarytest

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// receiverChapter is a group of cases about one thing.
type receiverChapter struct {
	name  string
	cases []receiverCase
}

// receiverCase is one thing that an endpoint must or must not do.
type receiverCase struct {
	name  string
	needs receiverHook // "" where it needs none
	run   func(*examination)

	judges bool // what the others have seen, and sends nothing

	// For whoever fails it.
	consequence, fix string
}

// receiverChapters are in the order in which they run: Always judges what the
// others have seen.
func receiverChapters() []receiverChapter {
	return []receiverChapter{
		{"Signature", slices.Concat(signatureCases(), timestampCases(), rotationCases())},
		{"Challenge", challengeCases()},
		{"Events", eventCases()},
		{"Delivery", slices.Concat(deliveryCases(), outageCases())},
		{"Bodies", bodyCases()},
		{"Always", alwaysCases()},
	}
}

// receiverHook names an optional field of [Receiver].
type receiverHook string

const (
	hookBlockHandler  receiverHook = "BlockHandler"
	hookBodyTimeout   receiverHook = "BodyTimeout"
	hookBreakStorage  receiverHook = "BreakStorage"
	hookHandled       receiverHook = "Handled"
	hookLogs          receiverHook = "Logs"
	hookOldSecret     receiverHook = "OldSecret"
	hookEnvelopes     receiverHook = "OtherEnvelopes"
	hookWithoutSecret receiverHook = "WithoutSecret"
)

// missing says why a case cannot be run; "" if it can.
func (r *Receiver) missing(hook receiverHook) string {
	given, what := true, ""
	switch hook {
	case hookBlockHandler:
		given, what = r.BlockHandler != nil, "which makes the handling of events wait"
	case hookBodyTimeout:
		given, what = r.BodyTimeout > 0, "how long the server waits for a body"
	case hookBreakStorage:
		given, what = r.BreakStorage != nil, "which makes the storing of events fail"
	case hookHandled:
		given, what = r.Handled != nil, "which tells how often an event was handled"
	case hookLogs:
		given, what = r.Logs != nil, "which returns what was logged"
	case hookOldSecret:
		given, what = r.OldSecret != "", "the second secret that is accepted while one is rotated"
	case hookEnvelopes:
		given, what = r.OtherEnvelopes, "which says that events are found in envelopes that the API does not document"
	case hookWithoutSecret:
		given, what = r.WithoutSecret != nil, "which makes the endpoint without its secret"
	}
	if given {
		return ""
	}
	return fmt.Sprintf("needs Receiver.%s, %s", hook, what)
}

// withDefaults checks r and fills in what was left out.
func (r Receiver) withDefaults() (Receiver, error) {
	switch {
	case (r.Handler == nil) == (r.URL == ""):
		return r, errors.New("dispensarytest: Receiver: one of Handler and URL is required")
	case r.Secret == "":
		return r, errors.New("dispensarytest: Receiver.Secret is missing")
	case r.Challenge == "":
		return r, errors.New("dispensarytest: Receiver.Challenge is missing")
	case r.Secret == r.Challenge:
		return r, errors.New("dispensarytest: Receiver.Secret equals Challenge: the dashboard shows a secret key and a challenge token, which differ")
	case min(r.BodyTimeout, r.Patience, r.Timeout, r.Tolerance) < 0:
		return r, errors.New("dispensarytest: Receiver holds a negative duration")
	case r.EventType != "" && !slices.Contains(EventTypes(), r.EventType):
		return r, errors.New("dispensarytest: Receiver.EventType: " + unknownName("event type", r.EventType, EventTypes()))
	case r.Path != "" && !strings.HasPrefix(r.Path, "/"):
		return r, fmt.Errorf("dispensarytest: Receiver.Path %q does not begin with a slash", r.Path)
	}
	if r.URL != "" {
		if u, err := url.Parse(r.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return r, fmt.Errorf("dispensarytest: Receiver.URL %q is not an address", r.URL)
		}
	}
	r.EventType, r.Path = or(r.EventType, OrderPlaced), or(r.Path, "/webhooks")
	if r.Client == nil {
		r.Client = http.DefaultClient
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&r.Patience, 10 * time.Second}, {&r.Timeout, 2 * time.Second}, {&r.Tolerance, 5 * time.Minute}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return r, nil
}
