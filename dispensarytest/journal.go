package dispensarytest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Request is one request as the platform saw it.
type Request struct {
	Seq       int       // 1 is the first request of this platform
	At        time.Time // on the platform's clock
	ID        string    // the X-Request-Id of the answer
	Operation string    // for example "patients.create"; empty when there is none
	Method    string
	Route     string // the template below the base address
	Path      string // escaped, as it was sent
	Query     string // raw
	Status    int    // of the answer, lost or not; 0 when a fault kept the platform from giving one
	UserID    string // whose token it was
	TokenID   string // see [Token]
	Scope     ScopeDecision
	Unknown   []Unread // query parameters the operation does not know
	Unread    []Unread // body fields the operation does not know
	Refused   []string // the messages of an error answer
	Near      []string // for unknown operations: what there is on this path

	Faults     []Effect      // what a [Fault] did to it
	RetryAfter time.Duration // what the answer asked the caller to wait
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

// ScopeDecision is what the scope check said.
type ScopeDecision struct {
	Required []string // empty where no scope was needed or asked for
	Granted  bool
}

func (r *Request) near(operation string) {
	r.Near = append(r.Near, operation)
	slices.Sort(r.Near)
}

// String is one line for a test's log, without the query.
func (r Request) String() string {
	name := r.Operation
	if name == "" {
		name = "(no operation)"
	}
	line := fmt.Sprintf("#%d %s %s %s → %d", r.Seq, name, r.Method, r.Path, r.Status)
	if len(r.Refused) > 0 {
		line += " " + strings.Join(r.Refused, "; ")
	}
	for _, f := range r.Faults {
		line += " [" + string(f) + "]"
	}
	return line
}

// Journal remembers the latest requests; see [WithJournalLimit].
type Journal struct {
	srv   *Server
	limit int

	mu   sync.Mutex
	seq  int
	ring []Request // full once it has limit entries; then seq tells the oldest
}

func (j *Journal) add(r *Request) {
	defer j.srv.changes.Notify()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seq++
	r.Seq = j.seq
	if len(j.ring) < j.limit {
		j.ring = append(j.ring, *r)
		return
	}
	j.ring[(j.seq-1)%j.limit] = *r
}

// Len is how many requests there were, forgotten ones included.
func (j *Journal) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.seq
}

// Requests returns the remembered requests, the oldest first.
func (j *Journal) Requests() []Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.ring) < j.limit {
		return slices.Clone(j.ring)
	}
	oldest := j.seq % j.limit
	return slices.Concat(j.ring[oldest:], j.ring[:oldest])
}

// Of returns the remembered requests of an operation, the oldest first.
func (j *Journal) Of(operation string) []Request {
	return slices.DeleteFunc(j.Requests(), func(r Request) bool { return r.Operation != operation })
}

// Last returns the latest request, and false when there was none.
func (j *Journal) Last() (Request, bool) {
	all := j.Requests()
	if len(all) == 0 {
		return Request{}, false
	}
	return all[len(all)-1], true
}

// Reset forgets all requests, so that a test can look at its next step alone.
func (j *Journal) Reset() {
	defer j.srv.changes.Notify()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ring, j.seq = nil, 0
}
