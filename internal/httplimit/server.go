// Package httplimit limits how long a slow client can block a server.
package httplimit

import (
	"io"
	"log"
	"net/http"
	"time"
)

// Timeouts after which a server closes a connection.
const (
	headerTime = 10 * time.Second
	bodyTime   = 30 * time.Second // without a byte of the body
	idleTime   = 2 * time.Minute  // longer than clients keep idle connections
)

// Server returns a server that closes a connection if the client stops sending: after 10
// seconds in a header, 30 seconds between two parts of a body, or 2 minutes between requests.
// Responses have no time limit, so event streams and slow responses continue. The server logs
// nothing.
func Server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           limitBody(handler, bodyTime),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		// Client mistakes are of no interest to the caller.
		ErrorLog: log.New(io.Discard, "", 0),
	}
}

// limitBody limits the wait for each part of a body. [http.Server.ReadTimeout] would also
// cancel the context of a request with a long response.
func limitBody(next http.Handler, limit time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			b := &body{ReadCloser: r.Body, connection: http.NewResponseController(w), limit: limit}
			b.extend()
			r.Body = b
		}
		next.ServeHTTP(w, r)
	})
}

// body is a request body with a deadline for its next part.
type body struct {
	io.ReadCloser
	connection *http.ResponseController
	limit      time.Duration
}

// extend moves the deadline. A writer without a connection has no deadline.
func (b *body) extend() { _ = b.connection.SetReadDeadline(time.Now().Add(b.limit)) }

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	b.extend()
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF { // the server now watches the connection, so a deadline would cancel the request's context
		_ = b.connection.SetReadDeadline(time.Time{})
	}
	return n, err
}
