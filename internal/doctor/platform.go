package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

// expiresSoon is when a certificate that has not been renewed is worth a warning: most
// are renewed 30 days before their end.
const expiresSoon = 14 * 24 * time.Hour

// How far a clock may be off. Signatures of webhooks are refused beyond five minutes.
// API section: "Signature header" 4.
const (
	clockWarn = 30 * time.Second
	clockFail = 5 * time.Minute
)

func (r *run) site(ctx context.Context) Row {
	const consequence = "no call reaches the platform"
	site := r.config.OAuth.Site
	if err := site.Validate(); err != nil {
		return fail(err.Error(), consequence, "correct both addresses, as the platform's documentation names them: https, and the API's with /api at its end")
	}
	r.answer = r.get(ctx, site.BaseURL+"/clinic") // refused without a token, by the platform only
	a, host := r.answer, hostOf(site.BaseURL)
	switch {
	case a.err != nil && certificateReason(a.err) != "":
		return pass("%s can be reached", host)
	case a.err != nil:
		return fail(host+": "+reason(a.err), consequence, "compare the address with the documentation; look at DNS, firewall and proxy of this machine",
			"curl -sS -o /dev/null -D - "+site.BaseURL+"/clinic")
	case a.status >= 500:
		return fail(fmt.Sprintf("%s answers %d", host, a.status), consequence, "wait, and look at the platform's status page; a proxy of your own may be what answers")
	case a.status >= 300 && a.status < 400:
		return fail(fmt.Sprintf("%s redirects with %d", host, a.status), "calls that write are not redirected", "use the address that the documentation names")
	case a.header.Get("X-Request-Id") == "":
		return fail(fmt.Sprintf("%s answers %d without X-Request-Id, which every answer of the platform has", host, a.status),
			"something else answers the calls", "compare the address with the documentation, /api included; look whether a proxy answers in its place")
	}
	return pass("%s answers", host)
}

func (r *run) siteCertificate(context.Context) Row {
	return r.certificate(r.answer, r.config.OAuth.Site.BaseURL, "no call reaches the platform",
		"look at the certificates and the proxy of this machine; do not switch the check off")
}

// certificate looks at the TLS of an answer.
func (r *run) certificate(a *answer, address, consequence, fix string) Row {
	host := hostOf(address)
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(host, "443")
	}
	name, _, _ := net.SplitHostPort(host)
	show := "openssl s_client -connect " + host + " -servername " + name + " </dev/null | openssl x509 -noout -subject -issuer -dates"
	switch {
	case a.err != nil && certificateReason(a.err) != "":
		return fail(certificateReason(a.err), consequence, fix, show)
	case strings.HasPrefix(address, "http:"):
		return pass("plain HTTP to this machine, as in tests")
	case a.tls == nil || len(a.tls.PeerCertificates) == 0:
		return pass("the HTTP client shows no certificate")
	}
	left := a.tls.PeerCertificates[0].NotAfter.Sub(r.config.Now())
	switch {
	case a.tls.Version < tls.VersionTLS12:
		return fail(tls.VersionName(a.tls.Version)+", which is outdated", consequence, fix, show)
	case left < expiresSoon:
		return warn("the certificate ends in "+days(left), "from then on "+consequence, "renew the certificate, and see why that was not done by itself", show)
	}
	return pass("%s, the certificate ends in %s", tls.VersionName(a.tls.Version), days(left))
}

func (r *run) clock(context.Context) Row {
	date, err := http.ParseTime(r.answer.header.Get("Date"))
	if err != nil {
		return skip("the platform's answer has no Date")
	}
	// Date is cut to seconds, and was written while the answer was on its way.
	off := r.answer.at.Sub(date)
	if off > 0 {
		off = max(0, off-time.Second-r.answer.took)
	}
	direction := "ahead of"
	if off < 0 {
		direction = "behind"
	}
	seen := fmt.Sprintf("this machine is %s %s the platform", days(off), direction)
	fix := "let the machine follow a time server"
	switch {
	case off.Abs() > clockFail:
		return fail(seen, "webhooks are refused as too old or too new, and the endpoint is switched off after 24 hours", fix, "timedatectl set-ntp true", "timedatectl timesync-status")
	case off.Abs() > clockWarn:
		return warn(seen, "beyond 5 minutes webhooks are refused", fix, "timedatectl set-ntp true", "timedatectl timesync-status")
	}
	return pass("at most %s apart", days(max(off.Abs(), time.Second)))
}

// credentials asks to refresh a token that does not exist: the platform answers
// invalid_grant to the application that it knows, and invalid_client to another.
func (r *run) credentials(ctx context.Context) Row {
	const consequence = "no token can be fetched or refreshed: within two hours no call works"
	const fix = "copy client id and secret from the developer dashboard of this environment: each region and stage has its own"
	if r.err != nil {
		return fail(r.err.Error(), consequence, "correct what is named")
	}
	_, err := r.client.Refresh(ctx, oauth.Token{RefreshToken: api.NewSecret(madeUp()), Environment: r.environment()})
	var refused *oauth.ConfigError
	switch {
	case errors.Is(err, api.ErrReauthorize):
		return pass("the token endpoint knows the application")
	case errors.As(err, &refused):
		return fail("the token endpoint refuses the application of "+r.environment().String(), consequence, fix)
	case err == nil:
		return fail("the token endpoint refreshes a token that does not exist", "this is not the platform", "compare the site's address with the documentation")
	}
	return fail("the token endpoint: "+reason(err), consequence, "wait and run this again; quote the request id of the log if you ask the platform")
}

func (r *run) redirect(ctx context.Context) Row {
	const consequence = "no user can be connected"
	address, err := r.client.AuthorizeURL(madeUp())
	if err != nil {
		return fail("no address of the authorization page can be made", consequence, "correct the site's authorization address")
	}
	switch a := r.get(ctx, address); {
	case a.err != nil:
		return fail(hostOf(address)+": "+reason(a.err), consequence, "compare the authorization address with the documentation: it is not that of the API")
	case a.status == http.StatusNotFound:
		return fail("the authorization page answers 404", consequence,
			"make the redirect address in the developer dashboard and here the same, to the letter: scheme, port and the slash at the end, too")
	case a.status >= 400:
		return fail(fmt.Sprintf("the authorization page answers %d", a.status), consequence, "compare the authorization address with the documentation; with 5xx, wait")
	}
	return pass("the authorization page knows the application and its redirect address")
}
