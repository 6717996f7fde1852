package api

import (
	"errors"
	"time"
)

// Timestamp is a [time.Time] in the platform's formats: ISO 8601 with an offset or Z, or only
// a date, which reads as midnight UTC. UTC and GMT are the only zone abbreviations that it
// reads. The zero value stands for null. It has all methods of time.Time.
// API section: fields typed "timestamp".
type Timestamp struct{ time.Time }

// MarshalJSON writes RFC 3339 with all significant digits of the second, or null.
func (t Timestamp) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return t.Time.MarshalJSON()
}

// UnmarshalJSON reads a timestamp, a date, "" and null.
func (t *Timestamp) UnmarshalJSON(data []byte) error {
	text, null := scalarText(data)
	if null {
		*t = Timestamp{}
		return nil
	}
	parsed, err := parseTime(string(text))
	if err != nil {
		return errors.New("not a timestamp")
	}
	*t = Timestamp{parsed}
	return nil
}

// timeLayouts are the observed forms of ISO 8601, the usual form first. UTC and GMT are the
// only unambiguous zone abbreviations: package time reads others, such as EST, as UTC on most
// machines.
var timeLayouts = []string{
	time.RFC3339, // reads any fraction of a second too
	time.DateOnly,
	"2006-01-02T15:04:05Z0700",
	"2006-01-02 15:04:05 UTC",
	"2006-01-02 15:04:05 GMT",
	"2006-01-02 15:04:05 Z",
	"2006-01-02 15:04:05 -0700",
	"2006-01-02T15:04:05",
	time.DateTime,
}

func parseTime(s string) (time.Time, error) {
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errors.New("not a timestamp")
}
