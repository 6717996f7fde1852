package riverinbox

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// newRow is an event on its way into the table.
type newRow struct {
	key      string
	delivery webhook.Delivery
	subject  string
	object   string
	body     []byte

	duplicate bool // set when it is stored
}

// partition is the arguments of a job, and all that a job holds: the ordering key whose
// events are due, or the key of an event that has none.
type partition struct {
	Subject string `json:"subject,omitempty"`
	Event   string `json:"event,omitempty"`

	// retryAt is when a job that failed is due again; River asks for it after
	// Work, with the same arguments.
	retryAt time.Time
}

// Kind is how River calls these jobs.
func (partition) Kind() string { return "dispensary_webhook" }

func (r *newRow) partition() partition {
	if r.subject != "" {
		return partition{Subject: r.subject}
	}
	return partition{Event: r.key}
}

// text makes a string one that PostgreSQL takes. An event is not refused for what it
// changes: the body has it as it was.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// maxIndexed is how many bytes a text may have that is in an index, of whose pages
// three entries have to fit into one.
const maxIndexed = 2600

// indexed makes a string one that PostgreSQL can index. Of ordering keys it matters only
// which are the same: one that is too long is represented by its digest.
func indexed(s string) string {
	if s = text(s); len(s) <= maxIndexed {
		return s
	}
	digest := sha256.Sum256([]byte(s))
	return hex.EncodeToString(digest[:])
}

// setOf reads the only column of a query, a text.
func setOf(rows pgx.Rows) (map[string]bool, error) {
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	set := make(map[string]bool, len(texts))
	for _, text := range texts {
		set[text] = true
	}
	return set, err
}

// columns are what a delivery is read from; storedRow has them.
const columns = "e.key, e.type, e.clinic_id, e.created_at, e.received_at, " + storedBody

type storedRow struct {
	key, kind, clinicID string
	createdAt           *time.Time
	receivedAt          time.Time
	body                []byte
}

func (s *storedRow) into() []any {
	return []any{&s.key, &s.kind, &s.clinicID, &s.createdAt, &s.receivedAt, &s.body}
}

// delivery opens the body. A delivery whose body does not open is returned
// without it, with the error.
func (i *Inbox) delivery(s *storedRow) (webhook.Delivery, error) {
	d := webhook.Delivery{Type: events.Type(s.kind), ClinicID: s.clinicID, ReceivedAt: s.receivedAt.UTC()}
	if s.createdAt != nil {
		d.CreatedAt = s.createdAt.UTC()
	}
	if err := d.Key.UnmarshalText([]byte(s.key)); err != nil {
		return d, err
	}
	var err error
	d.Body, err = engine.OpenBody(i.config.Seal, d.Key, s.body)
	return d, err
}

// claim is a claim of the first event of a partition. Its token is its fence: an outcome
// with another one is refused.
type claim struct {
	subject, token string    // of its row
	since          time.Time // by the clock of this process; its time began later
	task           engine.Task
	unsure         bool // an outcome may have been stored without an answer
}
