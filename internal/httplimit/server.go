// Package httplimit bounds the time that clients may let a server wait.
package httplimit

import (
	"io"
	"log"
	"net/http"
	"time"
)

// Times after which a server closes a connection.
const (
	headerTime = 10 * time.Second
	bodyTime   = 30 * time.Second // without a byte of the body
	idleTime   = 2 * time.Minute  // longer than clients keep idle connections
)

// Server returns a server that closes a connection if the client stops sending: 10 seconds for
// a header, 30 seconds between two parts of a body, 2 minutes between requests. Responses may
// take any time, so event streams and slow responses continue. It logs nothing.
func Server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           limitBody(handler, bodyTime),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		// Mistakes of clients are no news to the caller.
		ErrorLog: log.New(io.Discard, "", 0),
	}
}

// limitBody bounds the wait for each part of a body. [http.Server.ReadTimeout] would also end
// the context of a request whose response takes longer.
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

// extend moves the deadline. A writer without a connection has none.
func (b *body) extend() { _ = b.connection.SetReadDeadline(time.Now().Add(b.limit)) }

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	b.extend()
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF { // from now on the server watches the connection, and a deadline would end the request's context
		_ = b.connection.SetReadDeadline(time.Time{})
	}
	return n, err
}
