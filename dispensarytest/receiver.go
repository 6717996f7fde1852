package dispensarytest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// Receiver is an endpoint for webhooks, as [CheckReceiver] examines it. Handler
// or URL, Secret and Challenge are required. Each hook below them lets more be
// examined; a case whose hook is missing is skipped, with a line that names it.
type Receiver struct {
	// Handler is the endpoint, or a router with the endpoint at Path. It is
	// called without a socket.
	Handler http.Handler

	// Path is where Handler is asked; "" means "/webhooks".
	Path string

	// URL is the endpoint of a server that runs, in place of Handler.
	URL string

	// Client makes the requests to URL, for example trusting a test
	// certificate; nil means [http.DefaultClient]. Redirects are not followed.
	Client *http.Client

	// Secret is the webhook secret key that the endpoint verifies with, and
	// Challenge the challenge token that it answers with.
	Secret, Challenge string

	// AnswersUnsignedProbe says that the endpoint is meant to answer an empty
	// body that is not signed. Whether the platform signs its probes is not
	// documented.
	AnswersUnsignedProbe bool

	// BlockHandler makes whatever handles events wait, until it is called with
	// false.
	BlockHandler func(blocked bool)

	// BodyTimeout is how long the server waits for a body, its ReadTimeout. A
	// case waits for that long.
	BodyTimeout time.Duration

	// BreakStorage makes whatever stores events fail, until it is called with
	// false.
	BreakStorage func(broken bool)

	// EventType is the type of the events that Handled counts; "" means
	// [OrderPlaced].
	EventType string

	// Handled returns how often the event with an id has been handled so far,
	// for all integrations together. It is asked again and again.
	Handled func(eventID string) int

	// Logs returns everything that the endpoint has logged so far.
	Logs func() string

	// Now is the endpoint's clock; nil means [time.Now].
	Now func() time.Time

	// OldSecret is accepted as Secret is, as long as the secret is rotated.
	OldSecret string

	// OtherEnvelopes says that the endpoint is meant to find an event that does not
	// come as {"event":{…}}, which is all that the API documents: one in
	// {"event_payload":{"event":{…}}}, as the delivery log has it, and one without
	// a wrapper.
	OtherEnvelopes bool

	// Patience is how long an event may take to be handled; 0 means 10 seconds.
	Patience time.Duration

	// Timeout is how long the platform waits for an answer; 0 means 2 seconds,
	// an assumption.
	Timeout time.Duration

	// Tolerance is how old, or how far in the future, a signature may be; 0
	// means 5 minutes, as the API recommends.
	Tolerance time.Duration

	// WithoutSecret makes the endpoint as it is where its secret was forgotten,
	// or returns the error that it fails with.
	WithoutSecret func() (http.Handler, error)
}

// ReceiverVerdict says what one case of [ExamineReceiver] came to.
type ReceiverVerdict struct {
	// Case is the name, such as "Signature/Stale".
	Case string

	// Skipped is why the case was not run; empty if it was.
	Skipped string

	// Findings are the mistakes that were seen, and what shows each.
	Findings []string

	// Consequence is what the mistake does in production, and Fix what to do
	// about it; both are there whether or not it was made.
	Consequence, Fix string
}

// Failed reports that a mistake was seen.
func (v ReceiverVerdict) Failed() bool { return len(v.Findings) > 0 }

// String returns the verdict as the failure of a test has it.
func (v ReceiverVerdict) String() string {
	switch {
	case v.Skipped != "":
		return v.Case + ": skipped: " + v.Skipped
	case !v.Failed():
		return v.Case + ": passed"
	}
	return v.Case + ": failed\n  " + strings.Join(v.Findings, "\n  ") +
		"\nIn production: " + v.Consequence + "\nFix: " + v.Fix
}

// CheckReceiver is the acceptance test of an endpoint for webhooks, written in
// whichever way: by hand, with package webhook, or in another language behind a
// URL. It plays the platform on good days and bad ones, and somebody who is not
// the platform. Every case is a subtest; one that fails says what was seen, what
// that does in production, and how to put it right.
//
//	func TestWebhooks(t *testing.T) {
//		dispensarytest.CheckReceiver(t, dispensarytest.Receiver{
//			Handler: router, Path: "/dispensary/webhooks",
//			Secret: "…", Challenge: "…",
//			Handled: orders.Count,
//		})
//	}
//
// The events are of all types, of a clinic that is made up and under ids that no
// other run has, so that a receiver with a database can be examined twice. Cases
// run one after the other, as they share what the hooks do. Those that wait for a
// failure take long only if there is one. Where the first event is refused, or is
// not answered in time, no others are sent: one cause is told once.
//
// Cases that were skipped are named in one line on standard error, with the hooks
// that they want. Without -v, go test shows it where it is run in the folder of the
// package; of packages that are named, as in go test ./..., it shows nothing unless
// they fail: there [ExamineReceiver] can be asked.
//
// It cannot see everything: not whether signatures are compared in constant time,
// nor whether what was acknowledged outlives a crash.
//
// API section: "Webhooks", "Signature header". Time-out, probes, and the ways in
// which data comes, are assumptions.
func CheckReceiver(t *testing.T, r Receiver) {
	t.Helper()
	x, err := newExamination(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer x.close()
	var verdicts []ReceiverVerdict
	for _, chapter := range receiverChapters() {
		t.Run(chapter.name, func(t *testing.T) {
			for _, c := range chapter.cases {
				t.Run(c.name, func(t *testing.T) {
					v := x.run(chapter.name, c)
					verdicts = append(verdicts, v)
					switch {
					case v.Skipped != "":
						t.Skip(v.Skipped)
					case v.Failed():
						t.Error(v)
					}
				})
			}
		})
	}
	if summary := summarize(t.Name(), verdicts); summary != "" {
		fmt.Fprintln(os.Stderr, summary) // what a test logs is not shown where it passes
	}
}

// ExamineReceiver is [CheckReceiver] for programs that are no test: it returns
// every verdict, in order. It fails if the receiver is not described well enough
// to begin.
func ExamineReceiver(ctx context.Context, r Receiver) ([]ReceiverVerdict, error) {
	x, err := newExamination(ctx, r)
	if err != nil {
		return nil, err
	}
	defer x.close()
	var verdicts []ReceiverVerdict
	for _, chapter := range receiverChapters() {
		for _, c := range chapter.cases {
			verdicts = append(verdicts, x.run(chapter.name, c))
		}
	}
	return verdicts, nil
}
