package watermillinbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// The kinds of entries. What is listed is few and comes and goes; what is kept is
// an entry for each event and each object.
const (
	kindEvent      = Kept + "event."  // kept.event.<event>: the event, or that it was there
	kindNewest     = Kept + "newest." // kept.newest.<object>: what the stale guard knows
	kindPending    = "pending."       // pending.<line>.<place>: an event that is to be handled
	kindLine       = "line."          // line.<line>: who is at it
	kindDead       = "dead."          // dead.<time>.<event>: a dead letter
	kindCheckpoint = "checkpoint."    // checkpoint.<name>
)

// The states of an event.
const (
	stateWaiting = "waiting"
	stateDone    = "done" // handled, skipped or discarded
	stateDead    = "dead"
)

// digestLength is how long a digest is.
const digestLength = 32

// digest makes a part of a key of any text.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:digestLength*6/8])
}

// eventID returns what names the event in keys.
func eventID(key webhook.Key) string {
	text, _ := key.MarshalText() // never fails
	return digest(string(text))
}

// A line is what is handled one at a time: the events of a subject, or one event
// that waits for nobody. The key of a place in it travels through the broker.
const (
	lineOfOne     = "e-"
	lineOfSubject = "s-"
)

// lineOf names the line of an event.
func lineOf(subject webhook.Subject, event string) string {
	if subject == "" {
		return lineOfOne + event
	}
	return lineOfSubject + digest(string(subject))
}

// isPlace reports the key of a place, or the beginning of one that names a line.
// What comes out of a broker may be anything.
func isPlace(text string) bool {
	line := lineIn(text)
	return strings.HasPrefix(text, kindPending) && len(text) < 200 && len(line) == len(lineOfOne)+digestLength &&
		(strings.HasPrefix(line, lineOfOne) || strings.HasPrefix(line, lineOfSubject)) &&
		!strings.ContainsFunc(text, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
		})
}

// alone reports the line of an event that waits for nobody.
func alone(line string) bool { return strings.HasPrefix(line, lineOfOne) }

// onlyPlace is the key of the one place in a line of that kind.
func onlyPlace(line string) string { return kindPending + line + ".1" }

// pendingKey puts an event in its place: the oldest comes first, and of those of
// one time the one that arrived first.
func pendingKey(line, event string, d webhook.Delivery) string {
	if alone(line) {
		return onlyPlace(line)
	}
	return fmt.Sprintf("%s%s.%s%s-%s", kindPending, line, sortable(d.OrderTime()), sortable(d.ReceivedAt), event)
}

// eventAt returns the event that a pending key is of.
func eventAt(pending string) string {
	if line := lineIn(pending); alone(line) {
		return strings.TrimPrefix(line, lineOfOne)
	}
	return pending[len(pending)-digestLength:]
}

// lineIn returns the line that a pending key is of.
func lineIn(pending string) string {
	line, _, _ := strings.Cut(strings.TrimPrefix(pending, kindPending), ".")
	return line
}

// sortable returns a time as a text that is ordered as the times are.
func sortable(t time.Time) string { return fmt.Sprintf("%016x", uint64(t.UnixMicro())+1<<63) }

// event is the entry of an event. All of it but the body is a line of JSON; the
// sealed body follows as it is.
type event struct {
	Key      string          `json:"key"`
	Type     string          `json:"type,omitempty"`
	ClinicID string          `json:"clinic_id,omitempty"`
	Created  *int64          `json:"created,omitempty"` // all times are microseconds since 1970
	Received int64           `json:"received"`
	Object   webhook.Subject `json:"object,omitempty"`
	Pending  string          `json:"pending"` // the key of its place, when it waits
	State    string          `json:"state"`

	// Writer is made up for every write, so that who does not hear what became
	// of a write can find out.
	Writer string `json:"writer"`

	// Of a dead letter.
	Letter   string `json:"letter,omitempty"` // the key of its place in the list
	Died     int64  `json:"died,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Err      []byte `json:"error,omitempty"` // sealed

	body     []byte // sealed
	revision uint64
}

func (e *event) entry() Entry {
	value := append(encode(e), '\n')
	return Entry{
		Key: kindEvent + e.id(), Value: append(value, e.body...),
		Revision: e.revision, Past: e.State == stateDone,
	}
}

// id is the part of keys that names the event.
func (e *event) id() string { return digest(e.Key) }

// eventOf reads an entry.
func eventOf(entry Entry) (*event, error) {
	head, body, _ := bytes.Cut(entry.Value, []byte("\n"))
	e := &event{body: body, revision: entry.Revision}
	return e, decode(head, e)
}

// delivery opens the body. A delivery whose body does not open is returned
// without it, with the error.
func (i *Inbox) delivery(e *event) (webhook.Delivery, error) {
	d := webhook.Delivery{Type: events.Type(e.Type), ClinicID: e.ClinicID, ReceivedAt: micro(e.Received)}
	if e.Created != nil {
		d.CreatedAt = micro(*e.Created)
	}
	if err := d.Key.UnmarshalText([]byte(e.Key)); err != nil {
		return d, err
	}
	var err error
	d.Body, err = webhook.OpenBody(i.config.Seal, d.Key, e.body)
	return d, err
}

// pending is the entry of an event that is to be handled.
type pending struct {
	Event    string `json:"event"`
	Since    int64  `json:"since"` // accepted or replayed, by the clock of the storage
	Due      int64  `json:"due"`
	Attempts int    `json:"attempts,omitempty"`
	Writer   string `json:"writer,omitempty"`

	key      string
	revision uint64
}

func (p *pending) entry() Entry { return Entry{Key: p.key, Value: encode(p), Revision: p.revision} }

func pendingOf(entry Entry) (*pending, error) {
	p := &pending{key: entry.Key, revision: entry.Revision}
	return p, decode(entry.Value, p)
}

// claim is the entry of a line that somebody is at.
type claim struct {
	Holder  string `json:"holder"`
	Until   int64  `json:"until"`
	Pending string `json:"pending"` // what is being handled
	Attempt int    `json:"attempt"`
	Touched int    `json:"touched,omitempty"` // how many events have come since
}

func micro(t int64) time.Time { return time.UnixMicro(t).UTC() }

// encode makes JSON of an entry, none of which can fail.
func encode(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}

// errUnreadable does not quote the value, which could be anything.
var errUnreadable = errors.New("watermillinbox: an entry of the store is not readable: another program, or a newer version, has written it")

func decode(text []byte, into any) error {
	if json.Unmarshal(text, into) != nil {
		return errUnreadable
	}
	return nil
}
