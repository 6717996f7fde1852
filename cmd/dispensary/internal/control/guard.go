package control

import (
	"mime"
	"net"
	"net/http"
	"strings"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/httpserve"
)

// Local lets callers on this machine through to a handler, and no web page of
// another site that wants to change something; a console stands behind it.
func Local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := local(r); err != nil {
			refuse(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// local refuses callers that are not on this machine, and web pages, whose requests
// come from this machine. Each check closes one way in.
func local(r *http.Request) error {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err != nil || !httpserve.Loopback(host) {
		return forbidden("only callers on the same machine are answered here")
	}
	// A name of the page's own that resolves to this machine.
	if !httpserve.Loopback(hostOf(r.Host)) {
		return forbidden("call this by a loopback name, such as localhost")
	}
	// A page that changes something.
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return forbidden("this request was sent from another site")
	}
	return nil
}

// guard is local for the API itself, which no web page may call.
func guard(r *http.Request) error {
	if err := local(r); err != nil {
		return err
	}
	// A page that reads: it would not see the answer, but making it costs, too.
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return forbidden("this request was sent from another site")
	}
	return nil
}

// guardWrite rejects a form, and a request that a web page may send without asking first.
func guardWrite(r *http.Request) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != jsonMedia {
		return &problem{status: http.StatusUnsupportedMediaType, message: "whatever changes something takes the content type application/json"}
	}
	return nil
}

func forbidden(message string) error {
	return &problem{status: http.StatusForbidden, message: message}
}

// hostOf is the name in a Host header, which may come without a port.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}
