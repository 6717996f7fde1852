package model

import (
	"fmt"
	"strings"
	"time"
)

// Request is one request as the platform saw it.
type Request struct {
	Seq       int       // 1 is the first request of this platform
	At        time.Time // of its arrival, on the platform's clock
	ID        string    // the X-Request-Id of the answer
	Operation string    // for example "patients.create"; empty when there is none
	Method    string
	Route     string   // the template below the base address
	Path      string   // escaped, as it was sent
	Query     string   // raw
	Status    int      // of the answer, lost or not; 0 when a fault kept the platform from giving one
	UserID    string   // whose token it was
	TokenID   string   // see [Token]
	Scopes    []string // the operation needs; empty if it checked none
	Granted   bool     // the token has all of Scopes
	Unknown   []Unread // query parameters the operation does not know
	Unread    []Unread // body fields the operation does not know
	Errors    []string // the messages of an error response
	Near      []string // for unknown operations: what there is on this path

	Faults     []Effect      // what a [Fault] did to it
	RetryAfter time.Duration // what the answer asked the caller to wait
	AnsweredAt time.Time     // just before the first byte of the answer, on the platform's clock

	// Bodies, of a platform that keeps them: JSON where it was sent, cut off when it is
	// long, and without tokens. The answer's is there even where a fault kept it back.
	RequestBody, ResponseBody []byte
}

// String is one line for a test's log, without the query.
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

// Unread is a name that the platform ignored.
type Unread struct {
	Name string
	Near string // the nearest name it knows, if any is near
}

func (u Unread) String() string {
	if u.Near == "" {
		return fmt.Sprintf("%q", u.Name)
	}
	return fmt.Sprintf("%q (did you mean %q?)", u.Name, u.Near)
}
