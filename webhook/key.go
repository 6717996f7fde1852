package webhook

import (
	"errors"
	"net/url"
	"strings"

	"github.com/dispensary-go/dispensary/api"
)

// Key identifies an event for good: it is what an [Inbox] recognises duplicates
// by. A clinic with several integrations gets each event once for each of them,
// with one event id, so the integration is part of it; so is the environment,
// as accounts and ids of different environments are separate. Keys are
// comparable.
// API section: "Webhooks" 6.
type Key struct {
	Environment api.Environment
	EventID     string

	// IntegrationID is empty where the platform names none.
	IntegrationID string
}

// String returns the key as "us/sandbox/evt_1/in_1", each part escaped as in a URL,
// so that no two keys have one text. [Key.UnmarshalText] reads it: from a link, a
// form, a queue, the arguments of a job.
func (k Key) String() string {
	parts := []string{string(k.Environment.Region), string(k.Environment.Stage), k.EventID, k.IntegrationID}
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/")
}

// MarshalText returns what [Key.String] does. It never fails.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what [Key.String] and [Key.MarshalText] write. Anything else fails, a key
// without an event id or of an unknown environment included.
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
		Environment:   api.Environment{Region: api.Region(parts[0]), Stage: api.Stage(parts[1])},
		EventID:       parts[2],
		IntegrationID: parts[3],
	}
	if key.EventID == "" || key.Environment.Validate() != nil {
		return errBadKey
	}
	*k = key
	return nil
}

// errBadKey does not quote the text, which could be anything.
var errBadKey = errors.New("webhook: text is not a key: want region/stage/event/integration")
