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
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// DefaultTimeout is the longest wait for the receiver's response. It exceeds the timeout of
// the platform, so that you can pause your program in a debugger.
const DefaultTimeout = 30 * time.Second

// maxResponse is the number of response bytes that are read.
const maxResponse = 64 << 10

// ForwarderConfig configures a [Forwarder]. URL, Secret and Challenge are required.
type ForwarderConfig struct {
	// URL receives the events. They contain patient data, so production events need https, unless
	// the host is this machine: a loopback address, localhost, or a name below localhost.
	URL string

	// Secret signs the events. The receiver must return Challenge. Configure the receiver with
	// both. Any two different texts are valid, such as two results of [rand.Text].
	Secret, Challenge api.Secret

	// Header is added to each request, for example for a gateway. [NewForwarder] rejects names
	// that are part of the delivery.
	Header http.Header

	// HTTPClient sends the requests. Nil means a new client. A Timeout of 0 means
	// [DefaultTimeout]. Redirects are not followed. If URL is on this machine, requests use a
	// copy of the [*http.Transport] without its proxy and dialer. A transport of another type may
	// use a proxy, so production events then need https.
	HTTPClient *http.Client
}

// Forwarder posts events to a URL as the platform's webhooks do. It is safe for concurrent
// use.
type Forwarder struct {
	config  ForwarderConfig
	client  *http.Client
	private bool // requests cannot be read in transit
}

// NewForwarder returns a forwarder. It sends no request. It returns an [*api.ArgumentError]
// for an invalid config.
func NewForwarder(c ForwarderConfig) (*Forwarder, error) {
	address, err := url.Parse(c.URL)
	switch {
	case err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https":
		return nil, badSetting("--forward-to", "must be a URL that begins with http:// or https://")
	case address.User != nil:
		return nil, badSetting("--forward-to", "must not contain a user name or password")
	case strings.TrimSpace(c.Secret.Reveal()) != c.Secret.Reveal() || c.Secret.IsZero():
		return nil, badSetting("webhook secret", "is empty, or begins or ends with whitespace")
	case strings.TrimSpace(c.Challenge.Reveal()) != c.Challenge.Reveal() || c.Challenge.IsZero():
		return nil, badSetting("challenge token", "is empty, or begins or ends with whitespace")
	case c.Challenge == c.Secret:
		return nil, badSetting("challenge token", "must differ from the secret")
	}
	for name := range c.Header {
		if slices.Contains(ownHeaders, name) {
			return nil, badSetting("--header", "cannot set "+name+": it is part of the delivery")
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

// ownHeaders are the headers that belong to the delivery.
var ownHeaders = []string{
	"Connection", "Content-Length", "Content-Type", "Trailer", "Transfer-Encoding", http.CanonicalHeaderKey(webhook.SignatureHeader),
}

// badSetting returns the error of a command-line setting.
func badSetting(setting, reason string) error {
	return &api.ArgumentError{Field: setting, Reason: reason}
}

// mayHave returns an error if it would send production events in plain text.
func (f *Forwarder) mayHave(e api.Environment) error {
	if !e.IsSandbox() && !f.private {
		return badSetting("--forward-to", "must be https or a loopback URL, because production events contain patient data")
	}
	return nil
}

// Response is the result of one attempt to forward an event.
type Response struct {
	Key       webhook.Key
	Type      events.Type
	ClinicID  string
	CreatedAt time.Time

	// Attempt is the number of this attempt in this run of the listener, from 1.
	Attempt int

	// Status is the HTTP status of the response, or 0 without a response.
	Status int

	// Challenge reports whether the response contained the challenge token.
	Challenge bool

	// Duration is the time from the request to the end of the response.
	Duration time.Duration

	// Err is the reason if the event is not done, and nil if it is. It matches
	// [ErrNotAcknowledged] if the receiver failed. It is an error of the client if the event
	// could not be read.
	Err error

	// Dropped reports that the event is not retried, because the platform no longer has it.
	Dropped bool

	unreachable bool
}

// ErrNotAcknowledged means that the platform would count the delivery as failed.
var ErrNotAcknowledged = errors.New("listen: not acknowledged")

// Forward posts an event with its data once, for the integration of key. Response.Err is nil if
// the event is done. It is an [*api.ArgumentError] if production events must not be sent to
// this URL.
func (f *Forwarder) Forward(ctx context.Context, key webhook.Key, e events.Event) Response {
	a := Response{Key: key, Type: e.Type, ClinicID: e.ClinicID, CreatedAt: e.CreatedAt.Time, Attempt: 1}
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

// envelope returns the body of the webhook. API section: "Webhooks" 2.
func envelope(key webhook.Key, e events.Event) ([]byte, error) {
	e.IntegrationID = key.IntegrationID
	return json.Marshal(struct {
		Event events.Event `json:"event"`
	}{e})
}

func (f *Forwarder) post(ctx context.Context, body []byte, now time.Time, a *Response) error {
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
		return noResponse(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	a.Status = resp.StatusCode
	response, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return noResponse(ctx, err)
	}
	return f.judge(response, a)
}

// noResponse returns the cause of a failed request without its URL. The query may contain a
// secret.
func noResponse(ctx context.Context, err error) error {
	if where, ok := errors.AsType[*url.Error](err); ok {
		err = where.Err
	}
	return fmt.Errorf("%w: no response: %w", ErrNotAcknowledged, cmp.Or(context.Cause(ctx), err))
}

// judge applies the platform's rules for a successful delivery. API section: "Webhooks" 3, 8.
func (f *Forwarder) judge(response []byte, a *Response) error {
	var got struct {
		Challenge string `json:"challenge"`
	}
	read := json.Unmarshal(response, &got)
	a.Challenge = api.NewSecret(got.Challenge) == f.config.Challenge
	switch {
	case a.Status == http.StatusGone:
		return fmt.Errorf("%w: status 410: the platform would disable the endpoint", ErrNotAcknowledged)
	case a.Status != http.StatusOK && a.Status != http.StatusCreated:
		return fmt.Errorf("%w: status %d is neither 200 nor 201", ErrNotAcknowledged, a.Status)
	case read != nil:
		return fmt.Errorf("%w: the response is not JSON", ErrNotAcknowledged)
	case !a.Challenge:
		return fmt.Errorf("%w: the response does not contain the challenge token", ErrNotAcknowledged)
	}
	return nil
}

// isLocal reports whether the host of a URL is this machine: a loopback address, localhost, or
// a name below localhost (RFC 6761).
func isLocal(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// direct returns a copy of a transport that connects only to this machine, without a proxy. It
// returns false if the transport is not an [*http.Transport].
func direct(of http.RoundTripper) (*http.Transport, bool) {
	if of == nil {
		of = http.DefaultTransport
	}
	base, is := of.(*http.Transport)
	if !is {
		return nil, false
	}
	made := base.Clone()
	made.Proxy = nil
	made.DialContext = dialLocal
	return made, true
}

// dialLocal connects to a port of this machine. It dials localhost for names below it, because
// some resolvers do not know them. It rejects other machines, because a network resolver could
// return one.
func dialLocal(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddr(host); err != nil {
		address = net.JoinHostPort("localhost", port)
	}
	dialer := net.Dialer{Control: func(_, to string, _ syscall.RawConn) error {
		if at, err := netip.ParseAddrPort(to); err != nil || !at.Addr().Unmap().IsLoopback() {
			return errors.New("localhost resolves to another machine")
		}
		return nil
	}}
	return dialer.DialContext(ctx, network, address)
}
