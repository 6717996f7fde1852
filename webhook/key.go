package webhook

import (
	"errors"
	"net/url"
	"strings"

	"github.com/dispensary-go/dispensary/api"
)

// Key identifies an event. An [Inbox] recognizes duplicates by it. It contains the integration,
// because the platform sends each event of a clinic once per integration, with the same event ID.
// It contains the environment, because each environment has its own IDs. Keys are comparable.
// API section: "Webhooks" 6.
type Key struct {
	Environment api.Environment
	EventID     string

	// IntegrationID is empty if the event of the platform contains no integration.
	IntegrationID string
}

// String returns the key as text, such as "us/sandbox/evt_1/in_1". Each part is escaped as in a
// URL, so different keys have different texts. [Key.UnmarshalText] parses it.
func (k Key) String() string {
	region, stage, _ := strings.Cut(string(k.Environment), "/")
	parts := []string{region, stage, k.EventID, k.IntegrationID}
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/")
}

// MarshalText returns the text of [Key.String]. It never fails.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText parses the text of [Key.String]. It rejects any other text, a key without an event
// ID, and an unknown environment.
func (k *Key) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), "/")
	if len(parts) != 4 {
		return errBadKey
	}
	for i, part := range parts {
		plain, err := url.PathUnescape(part)
		if err != nil {
			return errBadKey
		}
		parts[i] = plain
	}
	key := Key{
		Environment:   api.Environment(parts[0] + "/" + parts[1]),
		EventID:       parts[2],
		IntegrationID: parts[3],
	}
	if key.EventID == "" || key.Environment.Validate() != nil {
		return errBadKey
	}
	*k = key
	return nil
}

// errBadKey does not quote the text, because it may contain patient data or a secret.
var errBadKey = errors.New("webhook: text is not a key: want region/stage/event/integration")
