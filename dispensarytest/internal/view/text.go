package view

import "time"

// NullText makes an empty string null.
func NullText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Time writes a timestamp in UTC, ISO 8601.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// NullTime makes the zero time null.
func NullTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := Time(t)
	return &s
}

// NullDay writes a date, and the zero time as null.
func NullDay(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := t.UTC().Format(time.DateOnly)
	return &s
}
