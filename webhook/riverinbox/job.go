package riverinbox

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Values in River's tables.
const (
	kind  = "dispensary_webhook"
	queue = "dispensary_webhooks"
)

// event contains the arguments of a job. Body is encrypted.
type event struct {
	Key  string `json:"key"`
	Body []byte `json:"body"`
}

// Kind implements [river.JobArgs].
func (event) Kind() string { return kind }

// UnmarshalJSON implements [json.Unmarshaler]. It returns no error, because River would end the attempt.
// Without its key, the event becomes a dead letter.
func (e *event) UnmarshalJSON(text []byte) error {
	type plain event
	_ = json.Unmarshal(text, (*plain)(e))
	return nil
}

// about is the metadata of a job. The arrival of the event is the time at which River has created it.
type about struct {
	Type        events.Type         `json:"type"`
	Clinic      string              `json:"clinic,omitempty"`
	Created     time.Time           `json:"created,omitzero"`
	OrderAt     time.Time           `json:"order_at,omitzero"`
	OrderingKey webhook.OrderingKey `json:"ordering_key,omitempty"`
	Object      webhook.OrderingKey `json:"object,omitempty"`
	past
}

// past contains the failures of an event, and the encrypted error of a dead letter.
type past struct {
	Failures []engine.Failure `json:"failures,omitempty"`
	Failure  []byte           `json:"failure,omitempty"`
}

// orderingKey returns the digest of the ordering key, or NULL.
func (a about) orderingKey() pgtype.UUID {
	if a.OrderingKey == "" {
		return pgtype.UUID{}
	}
	return digestOf(string(a.OrderingKey))
}

// digestOf returns half of the SHA-256 of a text.
func digestOf(text string) pgtype.UUID {
	sum := sha256.Sum256([]byte(text))
	return pgtype.UUID{Bytes: [16]byte(sum[:16]), Valid: true}
}

// keyDigest returns the digest of a key, from its text. Keys of one event ID have digests with the same
// first half.
func keyDigest(key string) pgtype.UUID {
	digest, id := digestOf(key), digestOf(strings.Split(key, "/")[2])
	return pgtype.UUID{Bytes: [16]byte(slices.Concat(id.Bytes[:8], digest.Bytes[:8])), Valid: true}
}

// text replaces bytes that PostgreSQL does not accept. The body keeps them.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// maxIndexed is the length up to which PostgreSQL can index a text.
const maxIndexed = 2600
