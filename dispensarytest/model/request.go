package model

import (
	"fmt"
	"strings"
	"time"
)

// Request is one request as the platform received it.
type Request struct {
	Seq       int       // 1 is the first request of this platform
	At        time.Time // time of arrival on the platform's clock
	ID        string    // X-Request-Id of the response
	Operation string    // for example "patients.create", empty if no operation matches
	Method    string
	Route     string   // the template, without the base URL
	Path      string   // escaped, as sent
	Query     string   // raw
	Status    int      // of the response, even if it was lost, or 0 if a fault prevented one
	UserID    string   // user of the token
	TokenID   string   // see [Token]
	Scopes    []string // scopes that the operation needs, empty if it checked none
	Granted   bool     // whether the token has all of Scopes
	Unknown   []Unread // unknown query parameters
	Unread    []Unread // unknown body fields
	Errors    []string // the messages of an error response
	Near      []string // for unknown operations: the operations on this path

	Faults     []Effect      // effects of a [Fault] on the request
	RetryAfter time.Duration // time that the response asked the caller to wait
	AnsweredAt time.Time     // just before the first byte of the response, on the platform's clock

	// Bodies are set if the platform records bodies. They contain JSON if it was sent, without
	// tokens, and are cut off if long. The response body is set even if a fault withheld it.
	RequestBody, ResponseBody []byte
}

// String returns one line for a test's log, without the query.
func (r Request) String() string {
	name := r.Operation
	if name == "" {
		name = "(no operation)"
	}
	line := fmt.Sprintf("#%d %s %s %s → %d", r.Seq, name, r.Method, r.Path, r.Status)
	if len(r.Errors) > 0 {
		line += " " + strings.Join(r.Errors, "; ")
	}
	for _, f := range r.Faults {
		line += " [" + string(f) + "]"
	}
	return line
}

// Unread is a name that the platform did not know and ignored.
type Unread struct {
	Name string
	Near string // the closest known name, empty if none is close
}

func (u Unread) String() string {
	if u.Near == "" {
		return fmt.Sprintf("%q", u.Name)
	}
	return fmt.Sprintf("%q (did you mean %q?)", u.Name, u.Near)
}
