package listen

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// DefaultTimeout is how long the address may take to answer: longer than the platform
// waits, so that a program can be halted in a debugger.
const DefaultTimeout = 30 * time.Second

// maxAnswer is how many bytes of an answer are read.
const maxAnswer = 64 << 10

// ForwarderConfig is what a [Forwarder] is made of. URL, Secret and Challenge are required.
type ForwarderConfig struct {
	// URL is the address that events are posted to. Events hold patient data: those of
	// production are sent over https only, unless the host is this machine: a loopback
	// address, localhost, or a name below localhost.
	URL string

	// Secret signs the events, and Challenge has to come back. They are what the receiver
	// is configured with; any two texts will do, such as two of [rand.Text].
	Secret, Challenge api.Secret

	// Header is added to each request, such as a header that a gateway requires.
	// [NewForwarder] rejects names that are part of the delivery.
	Header http.Header

	// HTTPClient sends the requests. Nil means a client of its own, and a Timeout of 0
	// means [DefaultTimeout]. Redirects are not followed. If URL is on this machine,
	// requests use a copy of an [*http.Transport] without its proxy and dialer. A
	// transport of another type may have a proxy, so with it events of production need
	// https.
	HTTPClient *http.Client
}

// Forwarder posts events to an address as the platform's webhooks do. It is safe for
// concurrent use.
type Forwarder struct {
	config  ForwarderConfig
	client  *http.Client
	private bool // what is sent cannot be read on the way
}

// NewForwarder returns a forwarder. It sends nothing. An error is an [*api.ArgumentError].
func NewForwarder(c ForwarderConfig) (*Forwarder, error) {
	address, err := url.Parse(c.URL)
	switch {
	case err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https":
		return nil, rejected("--forward-to", "is no address that begins with http:// or https://")
	case address.User != nil:
		return nil, rejected("--forward-to", "has a user name or password")
	case strings.TrimSpace(c.Secret.Reveal()) != c.Secret.Reveal() || c.Secret.IsZero():
		return nil, rejected("webhook secret", "is empty, or begins or ends with white space")
	case strings.TrimSpace(c.Challenge.Reveal()) != c.Challenge.Reveal() || c.Challenge.IsZero():
		return nil, rejected("challenge token", "is empty, or begins or ends with white space")
	case c.Challenge == c.Secret:
		return nil, rejected("challenge token", "is the secret")
	}
	for name := range c.Header {
		if slices.Contains(ownHeaders, name) {
			return nil, rejected("--header", "sets "+name+", which belongs to the delivery")
		}
	}
	var client http.Client
	if c.HTTPClient != nil {
		client = *c.HTTPClient
	}
	client.Timeout = cmp.Or(client.Timeout, DefaultTimeout)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	private := address.Scheme == "https"
	if isLocal(address.Hostname()) {
		if transport, ok := direct(client.Transport); ok {
			client.Transport, private = transport, true
		}
	}
	return &Forwarder{config: c, client: &client, private: private}, nil
}

// ownHeaders are the headers that a delivery needs as they are.
var ownHeaders = []string{
	"Connection", "Content-Length", "Content-Type", "Trailer", "Transfer-Encoding", http.CanonicalHeaderKey(webhook.SignatureHeader),
}

// rejected returns the error of a setting of the command line.
func rejected(setting, reason string) error {
	return &api.ArgumentError{Field: setting, Reason: reason}
}

// mayHave refuses to send patients of production in plain text.
func (f *Forwarder) mayHave(e api.Environment) error {
	if !e.IsSandbox() && !f.private {
		return rejected("--forward-to", "is neither https nor reached directly on this machine: events of production hold patient data")
	}
	return nil
}

// Answer is the result of one attempt to forward an event.
type Answer struct {
	Key       webhook.Key
	Type      events.Type
	ClinicID  string
	CreatedAt time.Time

	// Attempt counts the attempts of this run of the listener, from 1.
	Attempt int

	// Status is what the address answered; 0 where it did not.
	Status int

	// Challenge reports that the answer carried the challenge token.
	Challenge bool

	// Duration is how long the address took.
	Duration time.Duration

	// Err is why the event is not done; nil if it is. It matches [ErrNotAcknowledged]
	// where the address is the reason, and is an error of the client where the event
	// could not be read.
	Err error

	// Dropped reports an event that is not tried again: the platform has it no longer.
	Dropped bool

	unreachable bool
}

// ErrNotAcknowledged is matched by what the platform would count as a failed delivery.
var ErrNotAcknowledged = errors.New("listen: not acknowledged")

// Forward posts an event with its data once, for the integration of key, and returns the
// answer, which says whether it is done. It fails, in Answer.Err, with an
// [*api.ArgumentError] where events of the environment must not be sent to the address.
func (f *Forwarder) Forward(ctx context.Context, key webhook.Key, e events.Event) Answer {
	a := Answer{Key: key, Type: e.Type, ClinicID: e.ClinicID, CreatedAt: e.CreatedAt.Time, Attempt: 1}
	if a.Err = f.mayHave(key.Environment); a.Err != nil {
		return a
	}
	body, err := envelope(key, e)
	if err != nil {
		a.Err = fmt.Errorf("listen: event %s: %w", e.ID, err)
		return a
	}
	start := time.Now()
	a.Err = f.post(ctx, body, start, &a)
	a.Duration = time.Since(start)
	return a
}

// envelope is the body that a webhook would have brought.
// API section: "Webhooks" 2.
func envelope(key webhook.Key, e events.Event) ([]byte, error) {
	e.IntegrationID = key.IntegrationID
	return json.Marshal(struct {
		Event events.Event `json:"event"`
	}{e})
}

func (f *Forwarder) post(ctx context.Context, body []byte, now time.Time, a *Answer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.config.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "dispensary-listen")
	req.Header.Set(webhook.SignatureHeader, webhook.Sign(f.config.Secret, now, body))
	maps.Copy(req.Header, f.config.Header)
	req.Host = cmp.Or(req.Header.Get("Host"), req.Host)
	resp, err := f.client.Do(req)
	if err != nil {
		var dial *net.OpError
		a.unreachable = errors.As(err, &dial) && dial.Op == "dial"
		return noAnswer(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	a.Status = resp.StatusCode
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return noAnswer(ctx, err)
	}
	return f.judge(answer, a)
}

// noAnswer says why without the address, whose query may hold a secret.
func noAnswer(ctx context.Context, err error) error {
	var where *url.Error
	if errors.As(err, &where) {
		err = where.Err
	}
	return fmt.Errorf("%w: no answer: %w", ErrNotAcknowledged, cmp.Or(context.Cause(ctx), err))
}

// judge counts as delivered what the platform does.
// API section: "Webhooks" 3, 8.
func (f *Forwarder) judge(answer []byte, a *Answer) error {
	var got struct {
		Challenge string `json:"challenge"`
	}
	read := json.Unmarshal(answer, &got)
	a.Challenge = api.NewSecret(got.Challenge) == f.config.Challenge
	switch {
	case a.Status == http.StatusGone:
		return fmt.Errorf("%w: status 410, at which the platform would switch the address off", ErrNotAcknowledged)
	case a.Status != http.StatusOK && a.Status != http.StatusCreated:
		return fmt.Errorf("%w: status %d is neither 200 nor 201", ErrNotAcknowledged, a.Status)
	case read != nil:
		return fmt.Errorf("%w: the answer is not JSON", ErrNotAcknowledged)
	case !a.Challenge:
		return fmt.Errorf("%w: the answer does not carry the challenge token", ErrNotAcknowledged)
	}
	return nil
}
