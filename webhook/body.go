package webhook

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// isEmpty reports whether the body of a request has no bytes.
func isEmpty(r *http.Request) bool {
	if r.ContentLength > 0 {
		return false
	}
	if r.Body == nil {
		return true
	}
	n, err := io.ReadFull(r.Body, make([]byte, 1))
	return n == 0 && err == io.EOF
}

// limitBody limits the time for the caller to send the body. The limit also applies if the handler
// does not read the body, because net/http reads the rest of it before and after it sends the
// response. The server removes the limit before the next request.
func limitBody(w http.ResponseWriter, r *http.Request, limit time.Duration) {
	if limitsBody(r, limit) {
		setReadDeadline(w, time.Now().Add(limit))
	}
}

// unlimitBody removes the limit after the whole body was read. From then on net/http reads
// in the background, and a deadline would end the context of the connection.
func unlimitBody(w http.ResponseWriter, r *http.Request, limit time.Duration) {
	if limitsBody(r, limit) {
		setReadDeadline(w, time.Time{})
	}
}

// setReadDeadline does nothing for a writer without deadlines.
func setReadDeadline(w http.ResponseWriter, at time.Time) {
	eachWriter(w, func(w http.ResponseWriter) bool {
		limited, ok := w.(interface{ SetReadDeadline(time.Time) error })
		if ok {
			_ = limited.SetReadDeadline(at)
		}
		return ok
	})
}

// limitsBody reports whether r has a body and its server has no shorter limit.
func limitsBody(r *http.Request, limit time.Duration) bool {
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	return r.ContentLength != 0 && (server == nil || server.ReadTimeout <= 0 || server.ReadTimeout > limit)
}

// trustedLength is the largest buffer for an announced body in bytes. The caller is not verified
// yet, so the buffer grows beyond it only as bytes arrive.
const trustedLength = 64 << 10

// readBody reads the raw body of a request into new memory.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, ErrBodyTooLarge
	}
	source := http.MaxBytesReader(w, r.Body, limit)
	// One byte more than announced, so that Read reaches the end before the buffer is full.
	body := make([]byte, 0, 1+max(511, min(r.ContentLength, trustedLength)))
	for {
		n, err := source.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err != nil {
			return body, bodyError(err)
		}
		if len(body) == cap(body) {
			body = slices.Grow(body, len(body))
		}
	}
}

func bodyError(err error) error {
	switch {
	case err == io.EOF:
		return nil
	case errors.As(err, new(*http.MaxBytesError)):
		return ErrBodyTooLarge
	case errors.Is(err, http.ErrBodyReadAfterClose):
		return ErrBodyConsumed
	}
	return ErrBodyUnreadable // the cause contains only network addresses
}

func statusOfBody(err error) int {
	switch err {
	case ErrBodyTooLarge:
		return http.StatusRequestEntityTooLarge
	case ErrBodyConsumed:
		return http.StatusUnauthorized
	}
	return http.StatusBadRequest
}

// explainMismatch returns [ErrBodyConsumed] if a middleware has read or changed the body, and
// otherwise err.
func explainMismatch(r *http.Request, read int, err error) error {
	announced := r.ContentLength
	switch {
	case announced >= 0 && announced != int64(read):
		return fmt.Errorf("%w: %d bytes announced, %d found", ErrBodyConsumed, announced, read)
	case announced < 0 && read == 0:
		return fmt.Errorf("%w: no bytes are left", ErrBodyConsumed)
	}
	return err
}
