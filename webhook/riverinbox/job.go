package riverinbox

import (
	"crypto/sha256"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/riverqueue/river/rivertype"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Names in River's tables.
const (
	kind  = "dispensary_webhook"
	queue = "dispensary_webhooks"
)

// event is the arguments of a job: an event, whose body is sealed.
type event struct {
	Key  string `json:"key"`
	Body []byte `json:"body"`
}

// Kind is how River calls these jobs.
func (event) Kind() string { return kind }

// about is the metadata of a job: what is known of the event without its body.
type about struct {
	Type     events.Type         `json:"type"`
	Clinic   string              `json:"clinic,omitempty"`
	Created  time.Time           `json:"created,omitzero"`
	Received time.Time           `json:"received"`
	Order    time.Time           `json:"order,omitzero"`
	Subject  webhook.OrderingKey `json:"subject,omitempty"`
	Object   webhook.OrderingKey `json:"object,omitempty"`
	past
}

// past is what became of attempts that failed, and the sealed error of a dead letter.
type past struct {
	Failures []engine.Failure `json:"failures,omitempty"`
	Failure  []byte           `json:"failure,omitempty"`
}

// line is the digest of the ordering key; NULL without one.
func (a about) line() pgtype.UUID {
	if a.Subject == "" {
		return pgtype.UUID{}
	}
	return digestOf(string(a.Subject))
}

// delivery returns the delivery of a job. With an error it has no body.
func (i *Inbox) delivery(e event, a about) (webhook.Delivery, error) {
	d := webhook.Delivery{Type: a.Type, ClinicID: a.Clinic, CreatedAt: a.Created, ReceivedAt: a.Received}
	if err := d.Key.UnmarshalText([]byte(e.Key)); err != nil {
		return d, err
	}
	var err error
	d.Body, err = engine.OpenBody(i.config.Seal, d.Key, e.Body)
	return d, err
}

// digestOf is half of the SHA-256 of a text: the form in which the tables know keys and lines.
func digestOf(text string) pgtype.UUID {
	sum := sha256.Sum256([]byte(text))
	return pgtype.UUID{Bytes: [16]byte(sum[:16]), Valid: true}
}

// text makes a string one that PostgreSQL takes. An event is not refused for what it changes: the
// body has it as it was.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// maxIndexed is how many bytes of a text PostgreSQL can index.
const maxIndexed = 2600

// short makes an ordering key one that PostgreSQL can index. It matters only which are the same:
// one that is too long is represented by its digest.
func short(key webhook.OrderingKey) webhook.OrderingKey {
	k := text(string(key))
	if len(k) > maxIndexed {
		k = digestOf(k).String()
	}
	return webhook.OrderingKey(k)
}

// recorded is what Work returns. River records nothing for it, as the inbox has done so: River's
// own records ask only whether a job runs, and not in which attempt. It has the methods of the
// error with which a worker reports on several jobs, and reports on none.
type recorded struct{}

func (recorded) Error() string               { return "riverinbox: the outcome is recorded" }
func (recorded) Jobs() []*rivertype.JobRow   { return nil }
func (recorded) ErrorsByID() map[int64]error { return nil }
