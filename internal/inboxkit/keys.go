package inboxkit

import (
	"time"

	"github.com/dispensary-go/dispensary/webhook"
)

// Missing returns the keys that are not known, in their order and without repeats. It implements
// Missing of reconcile.Inbox.
func Missing(keys []webhook.Key, known func(webhook.Key) bool) []webhook.Key {
	var missing []webhook.Key
	seen := make(map[webhook.Key]bool, len(keys))
	for _, key := range keys {
		if !seen[key] && !known(key) {
			missing = append(missing, key)
		}
		seen[key] = true
	}
	return missing
}

// Retention is the time for which an [engine.Engine] keeps the keys of handled events. It is a day more than
// the 30 days in which the platform can send or list an event again.
// API section: "Limits".
const Retention = 31 * 24 * time.Hour
