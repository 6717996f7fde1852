package inboxkit

import (
	"time"

	"github.com/dispensary-go/dispensary/webhook"
)

// Missing returns the unknown keys in their order, without duplicates. It implements Missing
// of reconcile.Inbox.
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

// Retention is how long an [engine.Engine] keeps the keys of handled events. The platform can
// send or list an event again for 30 days, and Retention is one day more.
//
// API section: "Limits".
const Retention = 31 * 24 * time.Hour
