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

// deliveryTimeout is the platform's timeout for an endpoint. Assumption: the documentation calls
// it aggressive, but names no number. API section: "Webhooks" 5.
const deliveryTimeout = 2 * time.Second

// eventless is a body that changes if a proxy rewrites its JSON: spaces, line endings, escapes,
// numbers or the order of keys. It contains no event, so an endpoint has no event to store.
const eventless = "{ \"probe\" : \"doctor \\u00e9 é \\/ <>& \u2028\",\r\n\t\"n\": [1.0, 1e2 , -0],\"a\":null , \"A\":{ } }\r\n"

// stale is the age of the signature of a replayed request.
const stale = 2 * defaults.SignatureTolerance

// post sends a body to the endpoint as the platform would, signed with secret at a time.
func (r *run) post(ctx context.Context, secret api.Secret, at time.Time, body string) *serverResponse {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.config.Webhook.URL, bytes.NewBufferString(body))
	if err != nil {
		return &serverResponse{err: errors.New("doctor: invalid URL")} // err repeats the URL
	}
	timestamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret.Reveal()))
	mac.Write([]byte(timestamp + "." + body))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(webhook.SignatureHeader, "t="+timestamp+",v1="+hex.EncodeToString(mac.Sum(nil)))
	return r.do(r.config.Webhook.HTTPClient, request)
}

func (a *serverResponse) ok() bool { return a.err == nil && (a.status == 200 || a.status == 201) }

// echoes reports whether the response contains a challenge token.
func (a *serverResponse) echoes(challenge api.Secret) bool {
	var got struct {
		Challenge string `json:"challenge"`
	}
	return json.Unmarshal(a.body, &got) == nil && got.Challenge == challenge.Reveal()
}

// off returns how far the endpoint's clock is ahead of this machine's, or 0 if it is unknown.
func (a *serverResponse) off() time.Duration {
	date, err := http.ParseTime(a.header.Get("Date"))
	if err != nil {
		return 0
	}
	return date.Sub(a.at)
}

// undelivered is the consequence if the endpoint acknowledges no event.
const undelivered = "no event is delivered, and the platform disables the endpoint after 24 hours"

// checkEndpoint sends a signed empty body. Assumption: the platform does so when a URL is registered.
func checkEndpoint(ctx context.Context, r *run) Row {
	address := r.config.Webhook.URL
	if address == "" {
		return skip("no webhook endpoint is configured")
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return fail("is not an absolute URL", undelivered, "register a URL such as https://ehr.example/webhooks")
	case u.Scheme != "https" && !r.environment().IsSandbox(), u.Scheme != "https" && !isLoopback(u.Hostname()):
		return fail("uses plain HTTP", "the platform rejects the URL, and patient data would be readable on the network",
			"serve it with TLS, and register the https URL")
	}
	a := r.post(ctx, r.config.Webhook.Secrets[0], r.config.Now(), "")
	r.endpointAt = a
	if a.err != nil && certificateReason(a.err) == "" && reason(a.err) != "timed out" {
		return fail(u.Host+": "+reason(a.err), undelivered, "check DNS, firewall and load balancer; the platform connects from outside your network",
			"curl -sS -o /dev/null -D - -X POST https://"+u.Host+"/")
	}
	return pass("%s is reachable", u.Host)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func checkEndpointCertificate(_ context.Context, r *run) Row {
	return r.certificate(r.endpointAt, r.config.Webhook.URL, undelivered,
		"install a certificate from a public authority for this name, including the intermediate certificates")
}

func checkEndpointTime(_ context.Context, r *run) Row {
	const consequence = "the platform times out, counts a failure and sends the event again, so slow work runs up to six times"
	const fix = "acknowledge once the event is stored, and handle it later, as package webhook does; check database latency and cold starts"
	a := r.endpointAt
	switch {
	case a.err != nil:
		return fail("no response in "+days(a.took), consequence, fix)
	case a.took > deliveryTimeout:
		return fail(fmt.Sprintf("takes %.1f s, but the platform waits for about %.0f s", a.took.Seconds(), deliveryTimeout.Seconds()), consequence, fix)
	case a.took > deliveryTimeout/2:
		return warn(fmt.Sprintf("takes %.1f s, but the platform waits for about %.0f s", a.took.Seconds(), deliveryTimeout.Seconds()), "under load "+consequence, fix)
	}
	return pass("%d ms", a.took.Milliseconds())
}

func checkEndpointRedirects(_ context.Context, r *run) Row {
	a := r.endpointAt
	switch {
	case a.err != nil:
		return skip("no response")
	case a.status >= 300 && a.status < 400:
		return fail(fmt.Sprintf("redirects with %d", a.status), undelivered, "register the URL that it redirects to; check for a trailing slash, www and the login page of a proxy")
	}
	return pass("no redirect")
}

func checkEndpointGone(_ context.Context, r *run) Row {
	if r.endpointAt.status == http.StatusGone {
		return fail("responds with 410", "the platform disables the endpoint at once, and delivers no more events",
			"respond with 503 during temporary failures; check maintenance pages and old routes of the proxy; then enable the endpoint in the developer dashboard")
	}
	return pass("does not respond with 410")
}

func checkEndpointSignature(ctx context.Context, r *run) Row {
	a, w := r.endpointAt, r.config.Webhook
	switch {
	case a.ok():
		return pass("accepts the webhook secret")
	case a.status >= 500:
		return fail(fmt.Sprintf("responds with %d", a.status), undelivered, "check the logs of the endpoint and of its proxy")
	case a.status < 300:
		return fail(fmt.Sprintf("responds with %d, a failure for the platform", a.status), undelivered, "respond with 200 or 201 and the challenge token")
	case a.status == http.StatusNotFound, a.status == http.StatusMethodNotAllowed:
		return fail(fmt.Sprintf("responds with %d to a POST", a.status), undelivered, "compare the path and method with the mounted route")
	}
	const fix = "copy the webhook secret from the developer dashboard of this environment to this configuration and to the endpoint"
	now := r.config.Now()
	switch off := a.off(); {
	case off.Abs() > defaults.SignatureTolerance:
		return fail(fmt.Sprintf("responds with %d, and its clock is %s away from the clock of this machine", a.status, days(off)), undelivered,
			"synchronize both machines with a time server", "timedatectl set-ntp true")
	case r.post(ctx, w.Challenge, now, "").ok():
		return fail("accepts the challenge token as the secret, and rejects the secret", undelivered, "exchange the secret and the challenge token of the endpoint")
	}
	for _, old := range w.Secrets[1:] {
		if r.post(ctx, old, now, "").ok() {
			return fail("accepts an older secret, but rejects the newest", undelivered+", once the old secret expires", "configure both secrets at the endpoint during a rotation")
		}
	}
	if a.status != http.StatusUnauthorized && a.status != http.StatusForbidden {
		return warn(fmt.Sprintf("responds with %d to a correctly signed empty body", a.status),
			"the platform may send one when the URL is registered", "respond to a correctly signed empty body with the challenge token; or "+fix)
	}
	return fail(fmt.Sprintf("rejects the webhook secret with %d", a.status), undelivered, fix)
}

func checkEndpointChallenge(_ context.Context, r *run) Row {
	const fix = "respond with 200 or 201 and {\"challenge\": …}, with the challenge token from the developer dashboard of this environment"
	a := r.endpointAt
	switch {
	case !a.ok():
		return skip("the endpoint rejects the empty body")
	case a.echoes(r.config.Webhook.Challenge):
		return pass("returns the challenge token")
	case a.echoes(r.config.Webhook.Secrets[0]):
		return fail("returns the webhook secret", undelivered+"; the secret is now in the platform's delivery log", "exchange the secret and the challenge token, and create a new secret")
	}
	return fail("does not return the challenge token", undelivered, fix)
}

func checkEndpointForgery(ctx context.Context, r *run) Row {
	r.forged = r.post(ctx, api.NewSecret(unusedName()), r.config.Now(), eventless)
	empty := r.post(ctx, api.NewSecret(unusedName()), r.config.Now(), "")
	switch {
	case r.forged.ok() || empty.ok():
		return fail("accepts a forged signature", "anyone can send events of orders, patients and plans",
			"verify the signature of the raw body first, as webhook.Handler does; reject a wrong one with 401")
	case r.forged.err != nil:
		return fail(reason(r.forged.err), undelivered, "check the logs of the endpoint and of its proxy")
	case r.forged.status == http.StatusGone:
		return fail("rejects a forged signature with 410", "anyone can make the platform disable the endpoint", "reject it with 401")
	}
	return pass("rejects a forged signature with %d", r.forged.status)
}

func checkEndpointReplay(ctx context.Context, r *run) Row {
	a := r.post(ctx, r.config.Webhook.Secrets[0], r.config.Now().Add(-stale), "")
	switch {
	case !r.endpointAt.ok():
		return skip("the endpoint rejects every signed empty body")
	case a.ok():
		return fail("accepts a signature that is "+days(stale)+" old", "anyone who has recorded a webhook can send it again",
			"compare the signature's timestamp with the clock, with a tolerance of 5 minutes")
	}
	return pass("responds with %d to a signature that is %s old", a.status, days(stale))
}

// checkEndpointBody checks whether bodies arrive unchanged. If a proxy or a framework rewrites them,
// their signatures no longer match.
func checkEndpointBody(ctx context.Context, r *run) Row {
	const consequence = "some events are rejected because their JSON is rewritten in transit, and are lost after six attempts"
	const fix = "verify the raw bytes before a framework decodes them; disable body rewriting, decompression and filtering in the proxy"
	a := r.post(ctx, r.config.Webhook.Secrets[0], r.config.Now(), eventless)
	switch {
	case a.err != nil:
		return fail(reason(a.err), consequence, "check the logs of the endpoint and of its proxy")
	case a.status == http.StatusUnauthorized, a.status == http.StatusForbidden:
		return fail(fmt.Sprintf("rejects a correctly signed body with unusual whitespace and escapes (%d), but accepts an empty one", a.status), consequence, fix)
	case a.status == http.StatusRequestEntityTooLarge, a.status == http.StatusUnsupportedMediaType, a.status >= 500:
		return fail(fmt.Sprintf("responds with %d to a small JSON body", a.status), consequence, fix)
	case !a.ok() && a.status == r.forged.status:
		return warn(fmt.Sprintf("responds with %d to a body without an event, signed or not", a.status), "it is unknown whether bodies arrive unchanged",
			"reject a forged signature with 401")
	}
	return pass("unusual whitespace and escapes arrive unchanged")
}
