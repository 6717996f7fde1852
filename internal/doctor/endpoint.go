package doctor

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/webhook"
)

// deliveryTimeout is how long the platform is assumed to wait for an endpoint.
// API section: "Webhooks" 5, which calls it aggressive and names no number.
const deliveryTimeout = 2 * time.Second

// eventless is a body in which whatever rewrites JSON changes something: spaces, the end
// of a line, escapes, numbers, the order of keys. It holds no event, so that an endpoint
// has nothing to store, and refuses it or acknowledges nothing.
const eventless = "{ \"probe\" : \"doctor \\u00e9 é \\/ <>& \u2028\",\r\n\t\"n\": [1.0, 1e2 , -0],\"a\":null , \"A\":{ } }\r\n"

// stale is how old the signature of a replayed request is.
const stale = 2 * defaults.SignatureTolerance

// post sends a body to the endpoint, signed at a time, as the platform would.
func (r *run) post(ctx context.Context, secret api.Secret, at time.Time, body string) *answer {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.config.Webhook.URL, bytes.NewBufferString(body))
	if err != nil {
		return &answer{err: errors.New("doctor: not an address")} // the error repeats the address
	}
	timestamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret.Reveal()))
	mac.Write([]byte(timestamp + "." + body))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(webhook.SignatureHeader, "t="+timestamp+",v1="+hex.EncodeToString(mac.Sum(nil)))
	return r.do(r.config.Webhook.HTTPClient, request)
}

func (a *answer) ok() bool { return a.err == nil && (a.status == 200 || a.status == 201) }

// echoes reports that the answer carries a challenge token.
func (a *answer) echoes(challenge api.Secret) bool {
	var got struct {
		Challenge string `json:"challenge"`
	}
	return json.Unmarshal(a.body, &got) == nil && got.Challenge == challenge.Reveal()
}

// off is how far the endpoint's clock is from this machine's; 0 if it does not say.
func (a *answer) off() time.Duration {
	date, err := http.ParseTime(a.header.Get("Date"))
	if err != nil {
		return 0
	}
	return date.Sub(a.at)
}

// undelivered is the consequence of whatever keeps events from being taken.
const undelivered = "no event is delivered, and after 24 hours the platform switches the endpoint off"

// endpoint asks with an empty body that is signed, as the platform is assumed to do when
// an address is registered.
func (r *run) endpoint(ctx context.Context) Row {
	address := r.config.Webhook.URL
	if address == "" {
		return skip("no endpoint for webhooks is configured")
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return fail("it is not an absolute URL", undelivered, "register an address such as https://ehr.example/webhooks")
	case u.Scheme != "https" && !r.environment().IsSandbox(), u.Scheme != "https" && !isLoopback(u.Hostname()):
		return fail("it is plain HTTP", "the platform takes no such address, and patients' data would be readable on the way",
			"serve it with TLS, and register the https address")
	}
	a := r.post(ctx, r.config.Webhook.Secrets[0], r.config.Now(), "")
	r.endpointAt = a
	if a.err != nil && certificateReason(a.err) == "" && reason(a.err) != "no answer in time" {
		return fail(u.Host+": "+reason(a.err), undelivered, "look at DNS, firewall and balancer: the platform comes from outside",
			"curl -sS -o /dev/null -D - -X POST https://"+u.Host+"/")
	}
	return pass("%s can be reached", u.Host)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (r *run) endpointCertificate(context.Context) Row {
	return r.certificate(r.endpointAt, r.config.Webhook.URL, undelivered,
		"install a certificate of a public authority for this name, with the intermediate ones")
}

func (r *run) endpointTime(context.Context) Row {
	const consequence = "the platform gives up and sends the event again: what is slow is done six times, and counts as a failure"
	const fix = "acknowledge once the event is stored, and handle it later, as package webhook does; look at the latency of the database and at cold starts"
	a := r.endpointAt
	switch {
	case a.err != nil:
		return fail("no answer in "+days(a.took), consequence, fix)
	case a.took > deliveryTimeout:
		return fail(fmt.Sprintf("it took %.1f s, and the platform waits for about %.0f", a.took.Seconds(), deliveryTimeout.Seconds()), consequence, fix)
	case a.took > deliveryTimeout/2:
		return warn(fmt.Sprintf("it took %.1f s, and the platform waits for about %.0f", a.took.Seconds(), deliveryTimeout.Seconds()), "under load "+consequence, fix)
	}
	return pass("%d ms", a.took.Milliseconds())
}

func (r *run) endpointRedirects(context.Context) Row {
	a := r.endpointAt
	switch {
	case a.err != nil:
		return skip("there was no answer")
	case a.status >= 300 && a.status < 400:
		return fail(fmt.Sprintf("it redirects with %d", a.status), undelivered, "register the address that it redirects to; mind the slash at the end, www, and the login of a proxy")
	}
	return pass("it answers by itself")
}

func (r *run) endpointGone(context.Context) Row {
	if r.endpointAt.status == http.StatusGone {
		return fail("it answers 410", "the platform switches the endpoint off at once, and no event is delivered from then on",
			"answer 503 for what does not work at the moment; look at maintenance pages and old routes of the proxy; then switch the endpoint on in the dashboard")
	}
	return pass("it does not answer 410")
}

func (r *run) endpointSignature(ctx context.Context) Row {
	a, w := r.endpointAt, r.config.Webhook
	switch {
	case a.ok():
		return pass("it takes what is signed with the secret")
	case a.status >= 500:
		return fail(fmt.Sprintf("it answers %d", a.status), undelivered, "look at its log, and at that of the proxy in front of it")
	case a.status < 300:
		return fail(fmt.Sprintf("it answers %d, which is a failure to the platform", a.status), undelivered, "answer 200 or 201, with the challenge token")
	case a.status == http.StatusNotFound, a.status == http.StatusMethodNotAllowed:
		return fail(fmt.Sprintf("it answers %d to a POST", a.status), undelivered, "compare path and method with the route that is mounted")
	}
	const fix = "copy the webhook secret from the developer dashboard of this environment, here and where the endpoint runs"
	now := r.config.Now()
	switch off := a.off(); {
	case off.Abs() > defaults.SignatureTolerance:
		return fail(fmt.Sprintf("it answers %d: its clock and that of this machine are %s apart", a.status, days(off)), undelivered,
			"let both machines follow a time server", "timedatectl set-ntp true")
	case r.post(ctx, w.Challenge, now, "").ok():
		return fail("it takes what is signed with the challenge token, and refuses the secret", undelivered, "secret and challenge token are swapped: exchange them")
	}
	for _, old := range w.Secrets[1:] {
		if r.post(ctx, old, now, "").ok() {
			return fail("it takes an older secret, and refuses the newest", undelivered+", once the old secret ends", "give the endpoint both secrets while they are rotated")
		}
	}
	if a.status != http.StatusUnauthorized && a.status != http.StatusForbidden {
		return warn(fmt.Sprintf("it answers %d to an empty body that is signed", a.status),
			"the platform may ask with one when an address is registered", "answer an empty body whose signature is right with the challenge token; or "+fix)
	}
	return fail(fmt.Sprintf("it answers %d to what is signed with the secret", a.status), undelivered, fix)
}

func (r *run) endpointChallenge(context.Context) Row {
	const fix = "answer 200 or 201 with {\"challenge\": …}, the challenge token of the developer dashboard of this environment"
	a := r.endpointAt
	switch {
	case !a.ok():
		return skip("the empty body was not taken")
	case a.echoes(r.config.Webhook.Challenge):
		return pass("it answers with the challenge token")
	case a.echoes(r.config.Webhook.Secrets[0]):
		return fail("it answers with the secret", undelivered+"; and the secret is in the platform's delivery log", "exchange secret and challenge token, and have a new secret made")
	}
	return fail("the answer does not carry the challenge token", undelivered, fix)
}

func (r *run) endpointForgery(ctx context.Context) Row {
	r.forged = r.post(ctx, api.NewSecret(madeUp()), r.config.Now(), eventless)
	empty := r.post(ctx, api.NewSecret(madeUp()), r.config.Now(), "")
	switch {
	case r.forged.ok() || empty.ok():
		return fail("it takes what is signed with another secret", "anybody can send events: orders, patients, plans",
			"check the signature of the raw body before anything else, as webhook.Handler does; refuse with 401")
	case r.forged.err != nil:
		return fail(reason(r.forged.err), undelivered, "look at its log, and at that of the proxy in front of it")
	case r.forged.status == http.StatusGone:
		return fail("it answers 410 to a wrong signature", "anybody can have the endpoint switched off", "refuse with 401")
	}
	return pass("it answers %d to a wrong signature", r.forged.status)
}

func (r *run) endpointReplay(ctx context.Context) Row {
	a := r.post(ctx, r.config.Webhook.Secrets[0], r.config.Now().Add(-stale), "")
	switch {
	case !r.endpointAt.ok():
		return skip("a signed empty body is not taken in any case")
	case a.ok():
		return fail("it takes a signature that is "+days(stale)+" old", "who has recorded a webhook can send it again",
			"check the time of the signature against the clock, with a tolerance of 5 minutes")
	}
	return pass("it answers %d to a signature that is %s old", a.status, days(stale))
}

// endpointBody tells a body that arrives as it was signed from one that a proxy, or a
// framework, has rewritten: then the signature does not match any more.
func (r *run) endpointBody(ctx context.Context) Row {
	const consequence = "events whose JSON is written in another way than the proxy would write it are refused, and are lost after six attempts"
	const fix = "verify the raw bytes, before a framework decodes them; switch off what rewrites, decompresses or filters bodies at the proxy"
	a := r.post(ctx, r.config.Webhook.Secrets[0], r.config.Now(), eventless)
	switch {
	case a.err != nil:
		return fail(reason(a.err), consequence, "look at its log, and at that of the proxy in front of it")
	case a.status == http.StatusUnauthorized, a.status == http.StatusForbidden:
		return fail(fmt.Sprintf("it answers %d to a body with unusual spaces and escapes that is signed, and takes an empty one", a.status), consequence, fix)
	case a.status == http.StatusRequestEntityTooLarge, a.status == http.StatusUnsupportedMediaType, a.status >= 500:
		return fail(fmt.Sprintf("it answers %d to a small body in JSON", a.status), consequence, fix)
	case !a.ok() && a.status == r.forged.status:
		return warn(fmt.Sprintf("it answers %d to a body without an event, signed or not", a.status), "it cannot be seen whether bodies arrive as they were signed",
			"answer a wrong signature with 401")
	}
	return pass("a body with unusual spaces and escapes arrives as it was signed")
}
