package control

import (
	"mime"
	"net"
	"net/http"
	"strings"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/httpserve"
)

// Local passes callers on this machine to next. It rejects requests of web pages on other
// sites that change state. It protects the console.
func Local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := local(r); err != nil {
			refuse(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// local rejects callers on other machines. Web pages send their requests from this machine, so
// it also rejects other host names and cross-origin writes.
func local(r *http.Request) error {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err != nil || !httpserve.Loopback(host) {
		return forbidden("only callers on the same machine have access")
	}
	// DNS rebinding: the page's own host name resolves to this machine.
	if !httpserve.Loopback(hostOf(r.Host)) {
		return forbidden("use a loopback host name, such as localhost")
	}
	// A cross-origin request that changes state.
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return forbidden("the request comes from another site")
	}
	return nil
}

// guard protects the API itself, which web pages cannot even read.
func guard(r *http.Request) error {
	if err := local(r); err != nil {
		return err
	}
	// The page could not read the response, but computing it has a cost.
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return forbidden("the request comes from another site")
	}
	return nil
}

// guardWrite rejects forms and other requests that a web page can send without a CORS
// preflight.
func guardWrite(r *http.Request) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != jsonMedia {
		return &problem{status: http.StatusUnsupportedMediaType, message: "requests that change state need the content type application/json"}
	}
	return nil
}

func forbidden(message string) error {
	return &problem{status: http.StatusForbidden, message: message}
}

// hostOf returns the name in a Host header, with or without a port.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}
