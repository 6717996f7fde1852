package engine

import (
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// DefaultRetention is how long an engine keeps the keys of handled events: a day
// more than the 30 days for which the platform keeps events, so that nothing it can
// still send or list is taken for new.
const DefaultRetention = 31 * 24 * time.Hour

// minRetention is how long the platform can repeat an event.
// API section: "Limits".
const minRetention = 30 * 24 * time.Hour

// Retention returns how long an engine keeps keys that was told to keep them for d:
// 0 means [DefaultRetention], less than 30 days is an [*api.ArgumentError] that
// names the field.
func Retention(d time.Duration, field string) (time.Duration, error) {
	switch {
	case d == 0:
		return DefaultRetention, nil
	case d < minRetention:
		return 0, &api.ArgumentError{Field: field, Reason: "is shorter than the 30 days in which the platform can repeat an event"}
	}
	return d, nil
}
