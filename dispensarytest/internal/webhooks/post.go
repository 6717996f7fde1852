package webhooks

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/signature"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// poster builds, signs and makes the requests of a sender.
type poster struct {
	Config
	client *http.Client
	ctx    context.Context
	stop   context.CancelFunc
}

func newPoster(config Config) *poster {
	ctx, stop := context.WithCancel(context.Background())
	client := http.Client{}
	if config.Given != nil {
		client = *config.Given
	}
	client.Transport = memhttp.Transport{Network: config.Network, Outside: config.outside(client.Transport)}
	// A redirect is a response other than 200 and 201.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.Timeout = 0
	return &poster{Config: config, client: &client, ctx: ctx, stop: stop}
}

// outside returns the transport for webhooks that leave the process: the transport of the
// given client, or else none in memory, or else a new pool.
func (c Config) outside(given http.RoundTripper) http.RoundTripper {
	switch {
	case given != nil:
		return given
	case c.Given != nil:
		return http.DefaultTransport
	case c.InMemory:
		return nil
	}
	return &http.Transport{MaxIdleConnsPerHost: max(c.Parallel, 4)}
}

// send makes one attempt, after a probe if the behavior requires it.
func (p *poster) send(target string, d *Entry, f model.Fault) (a model.Attempt) {
	if p.Behaviors.Get().Is(behavior.ProbeBeforeEach) {
		a = p.post(target, nil, p.probeSignature())
	}
	if a.Err == "" {
		a = p.post(target, p.envelope(d), signatureOf(f))
		a.Fault = f.Effect
	}
	return a
}

// envelope returns the body of a delivery. API section: "Webhooks" 2.
func (p *poster) envelope(d *Entry) []byte {
	behaviors := p.Behaviors.Get()
	body := view.EncodeDelivery(&d.Event, d.IntegrationID, behaviors.Is(behavior.WebhookEnvelopeEventPayload))
	if rewrite := view.Rewriter(behaviors); rewrite != nil {
		body = rewrite(body)
	}
	return body
}

// maxResponse is the maximum number of bytes that are read from a response.
const maxResponse = 64 << 10

// post makes one request to an endpoint. A nil body is a probe. The attempt counts as
// delivered if Err is empty.
func (p *poster) post(url string, body []byte, how Signature) (a model.Attempt) {
	a = model.Attempt{At: p.Clock.Now(), Probe: body == nil, RequestBody: body}
	defer func() {
		if a.Probe && a.Err != "" {
			a.Err = "probe: " + a.Err
		}
	}()
	ctx, cancel := context.WithTimeout(p.ctx, p.Behaviors.Get().SendTimeout())
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		a.IPAddress, _, _ = net.SplitHostPort(info.Conn.RemoteAddr().String())
	}})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		a.Err = err.Error()
		return a
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "dispensary-webhooks/2")
	if !how.none {
		a.Signature = p.Sign(body, how)
		req.Header.Set("SVC-Signature", a.Signature)
	}
	resp, err := p.client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		err = readResponse(&a, resp)
	}
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		a.Err = fmt.Sprintf("no response within %s", p.Behaviors.Get().SendTimeout())
	case err != nil:
		a.Err = err.Error()
	default:
		a.Err = p.judge(a)
	}
	return a
}

func readResponse(a *model.Attempt, resp *http.Response) error {
	a.Status = resp.StatusCode
	a.IPAddress = cmp.Or(a.IPAddress, memhttp.Address) // without a connection
	var header bytes.Buffer
	_ = resp.Header.Write(&header) // a buffer never fails
	a.ResponseHeader = header.String()
	response, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	a.ResponseBody = string(response)
	return err
}

// judge returns the problem of a response, or "". API section: "Webhooks" 3.
func (p *poster) judge(a model.Attempt) string {
	if a.Status != http.StatusOK && a.Status != http.StatusCreated {
		return fmt.Sprintf("status %d is neither 200 nor 201", a.Status)
	}
	var response struct {
		Challenge string `json:"challenge"`
	}
	if err := json.Unmarshal([]byte(a.ResponseBody), &response); err != nil {
		return "the response is not JSON"
	}
	if response.Challenge != p.App.ChallengeToken {
		return "the response does not contain the challenge token"
	}
	return ""
}

// Signature contains the options for signing a request.
type Signature struct {
	none  bool
	shift time.Duration // of the timestamp
	with  string        // used in place of the secret
}

// Sign returns the signature header for a body at the current time.
func (p *poster) Sign(body []byte, how Signature) string {
	return signature.Header(cmp.Or(how.with, p.App.WebhookSecret), p.Clock.Now().Add(how.shift), body)
}

func (p *poster) probeSignature() Signature {
	return Signature{none: p.Behaviors.Get().Is(behavior.ProbeSignatureUnsigned)}
}

// forgedSecret signs forged deliveries.
const forgedSecret = "not the webhook secret"

// signatureLag is the default distance of a wrong timestamp.
const signatureLag = 10 * time.Minute

// signatureOf returns the signature options of an attempt with this fault. Without a fault,
// the signature is correct.
func signatureOf(f model.Fault) Signature {
	lag := cmp.Or(f.Delay, signatureLag)
	switch f.Effect {
	case model.EffectDeliveryStale:
		return Signature{shift: -lag}
	case model.EffectDeliveryFuture:
		return Signature{shift: lag}
	case model.EffectDeliveryForged:
		return Signature{with: forgedSecret}
	}
	return Signature{}
}
