package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

// expiresSoon is the remaining validity below which a certificate causes a warning. Most
// certificates are renewed 30 days before they expire.
const expiresSoon = 14 * 24 * time.Hour

// Limits for the difference of clocks. Beyond 5 minutes, webhook signatures are rejected.
// API section: "Signature header" 4.
const (
	clockWarn = 30 * time.Second
	clockFail = 5 * time.Minute
)

func checkSite(ctx context.Context, r *run) Row {
	const consequence = "no call reaches the platform"
	site := r.config.OAuth.Site
	if err := site.Validate(); err != nil {
		return fail(err.Error(), consequence, "use both URLs from the platform's documentation: each begins with https, and the API's ends in /api")
	}
	r.response = r.get(ctx, site.BaseURL+"/clinic") // without a token, so that the platform rejects it
	a, host := r.response, hostOf(site.BaseURL)
	switch {
	case a.err != nil && certificateReason(a.err) != "":
		return pass("%s is reachable", host)
	case a.err != nil:
		return fail(host+": "+reason(a.err), consequence, "compare the URL with the platform's documentation; check DNS, firewall and proxy of this machine",
			"curl -sS -o /dev/null -D - "+site.BaseURL+"/clinic")
	case a.status >= 500:
		return fail(fmt.Sprintf("%s responds with %d", host, a.status), consequence, "wait and check the platform's status page; check whether a proxy of your own responds in its place")
	case a.status >= 300 && a.status < 400:
		return fail(fmt.Sprintf("%s redirects with %d", host, a.status), "calls that write do not follow redirects", "use the URL from the platform's documentation")
	case a.header.Get("X-Request-Id") == "":
		return fail(fmt.Sprintf("%s responds with %d and without the X-Request-Id of every platform response", host, a.status),
			"calls reach another server", "compare the URL with the platform's documentation, including /api; check whether a proxy responds in its place")
	}
	return pass("%s responds", host)
}

func checkSiteCertificate(_ context.Context, r *run) Row {
	return r.certificate(r.response, r.config.OAuth.Site.BaseURL, "no call reaches the platform",
		"check the root certificates and the proxy of this machine; do not disable certificate verification")
}

// certificate checks the TLS connection of a response.
func (r *run) certificate(a *serverResponse, address, consequence, fix string) Row {
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
		return pass("plain HTTP on this machine, as in tests")
	case a.tls == nil || len(a.tls.PeerCertificates) == 0:
		return pass("the HTTP client reports no certificate")
	}
	left := a.tls.PeerCertificates[0].NotAfter.Sub(r.config.Now())
	switch {
	case a.tls.Version < tls.VersionTLS12:
		return fail(tls.VersionName(a.tls.Version)+" is outdated", consequence, fix, show)
	case left < expiresSoon:
		return warn("the certificate expires in "+days(left), "from then on "+consequence, "renew the certificate, and find out why automatic renewal failed", show)
	}
	return pass("%s, the certificate expires in %s", tls.VersionName(a.tls.Version), days(left))
}

func checkClock(_ context.Context, r *run) Row {
	date, err := http.ParseTime(r.response.header.Get("Date"))
	if err != nil {
		return skip("the platform's response has no Date header")
	}
	// Date has whole seconds, and the platform wrote it before the response arrived.
	off := r.response.at.Sub(date)
	if off > 0 {
		off = max(0, off-time.Second-r.response.took)
	}
	direction := "ahead of"
	if off < 0 {
		direction = "behind"
	}
	seen := fmt.Sprintf("this machine is %s %s the platform", days(off), direction)
	fix := "synchronize this machine with a time server"
	switch {
	case off.Abs() > clockFail:
		return fail(seen, "webhooks are rejected as too old or too new, and the platform disables the endpoint after 24 hours", fix, "timedatectl set-ntp true", "timedatectl timesync-status")
	case off.Abs() > clockWarn:
		return warn(seen, "beyond 5 minutes, webhooks are rejected", fix, "timedatectl set-ntp true", "timedatectl timesync-status")
	}
	return pass("at most %s apart", days(max(off.Abs(), time.Second)))
}

// checkCredentials tries to refresh a token that does not exist. The platform responds with
// invalid_grant to a known application, and with invalid_client to any other.
func checkCredentials(ctx context.Context, r *run) Row {
	const consequence = "no token can be fetched or refreshed, so all calls fail within two hours"
	const fix = "copy the client ID and secret from the developer dashboard of this environment; each region and stage has its own"
	if r.err != nil {
		return fail(r.err.Error(), consequence, "correct the named setting")
	}
	_, err := r.client.Refresh(ctx, oauth.Token{RefreshToken: api.NewSecret(unusedName()), Environment: r.environment()})
	var rejected *oauth.ConfigError
	switch {
	case errors.Is(err, api.ErrReauthorize):
		return pass("accepted by the token endpoint")
	case errors.As(err, &rejected):
		return fail("rejected by the token endpoint of "+r.environment().String(), consequence, fix)
	case err == nil:
		return fail("the token endpoint refreshes a token that does not exist", "calls reach another server", "compare the site's URLs with the platform's documentation")
	}
	return fail("the token endpoint: "+reason(err), consequence, "wait and run this again; quote the request ID from the log if you contact the platform")
}

func checkRedirect(ctx context.Context, r *run) Row {
	const consequence = "no user can connect"
	address, err := r.client.AuthorizeURL(unusedName())
	if err != nil {
		return fail("cannot build the URL of the authorization page", consequence, "correct the site's authorization URL")
	}
	switch a := r.get(ctx, address); {
	case a.err != nil:
		return fail(hostOf(address)+": "+reason(a.err), consequence, "compare the authorization URL with the platform's documentation; it is not the URL of the API")
	case a.status == http.StatusNotFound:
		return fail("rejected by the authorization page with 404", consequence,
			"use exactly the redirect URL of the developer dashboard, including scheme, port and trailing slash")
	case a.status >= 400:
		return fail(fmt.Sprintf("the authorization page responds with %d", a.status), consequence, "compare the authorization URL with the platform's documentation; after a 5xx, wait and run this again")
	}
	return pass("the authorization page accepts the application and its redirect URL")
}

// checkSecretFiles warns of files with secrets that other users of this machine can read or change.
func checkSecretFiles(_ context.Context, r *run) Row {
	if len(r.config.SecretFiles) == 0 {
		return skip("no secret file is known")
	}
	if runtime.GOOS == "windows" {
		return skip("Windows permissions are not checked")
	}
	var open, commands []string
	for _, name := range r.config.SecretFiles {
		if exposed(name) {
			open = append(open, name)
			commands = append(commands, "chmod 600 '"+strings.ReplaceAll(name, "'", `'\''`)+"'")
		}
	}
	if len(open) > 0 {
		return warn("open to other users of this machine: "+strings.Join(open, ", "), "other users can read or replace the secrets",
			"restrict these files to the user that runs the program", commands...)
	}
	return pass("closed to other users of this machine")
}

// exposed reports whether other users than the owner can write a file, or users outside its group
// can read it. It returns false for an unreadable path.
func exposed(name string) bool {
	const byOthers fs.FileMode = 0o026 // group writes, others read or write
	real, err := filepath.Abs(name)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil || !has(real, byOthers) {
		return false
	}
	for folder := filepath.Dir(real); ; folder = filepath.Dir(folder) {
		if !has(folder, 0o011) { // only the owner can enter
			return false
		}
		if folder == filepath.Dir(folder) {
			return true
		}
	}
}

func has(name string, mode fs.FileMode) bool {
	about, err := os.Stat(name)
	return err == nil && about.Mode().Perm()&mode != 0
}

// checkDatabaseTLS warns of connections to databases that the network can read.
func checkDatabaseTLS(_ context.Context, r *run) Row {
	if len(r.config.Databases) == 0 {
		return skip("no database server is configured")
	}
	var plain []string
	for _, database := range r.config.Databases {
		if !database.Private {
			plain = append(plain, database.Setting)
		}
	}
	if len(plain) > 0 {
		return warn(fmt.Sprintf("%s: connections to another machine may not use TLS", strings.Join(plain, ", ")),
			"others on the network can read and change all rows except encrypted values",
			"require TLS in the URL: sslmode=verify-full for PostgreSQL, tls=true for MySQL")
	}
	return pass("connections stay on this machine or use TLS")
}
