package api

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"time"
)

// Date is a day without a time or zone, written yyyy-mm-dd. The zero value stands for null and
// SQL NULL. Compare dates with ==, and order them with [Date.Compare].
// API section: "Patient" (date_of_birth).
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

// DateOf returns the day of t in t's own location. January 1 of the year 1 is the day of the
// zero [time.Time]. It means "not known" to Go programs and database drivers, so DateOf
// returns the zero Date for it, as do all functions that read a Date.
func DateOf(t time.Time) Date {
	y, m, d := t.Date()
	if date := (Date{y, m, d}); !t.IsZero() && date != (Date{1, time.January, 1}) {
		return date
	}
	return Date{}
}

// ParseDate reads yyyy-mm-dd. For any other text, including the empty one, it returns an
// [*ArgumentError] for "date" without the text. For a form, set its Field to the name of the form's
// field: see [Problem.For].
func ParseDate(s string) (Date, error) {
	t, err := time.Parse(time.DateOnly, s)
	date := DateOf(t)
	if err != nil || date.Validate() != nil {
		return Date{}, &ArgumentError{Field: "date", Reason: "is not a day of the form yyyy-mm-dd"}
	}
	return date, nil
}

// IsZero reports whether d is the zero Date, which stands for null.
func (d Date) IsZero() bool { return d == Date{} }

// String returns yyyy-mm-dd, or "" for the zero Date.
func (d Date) String() string {
	if d.IsZero() {
		return ""
	}
	return fmt.Sprintf("%04d-%02d-%02d", d.Year, int(d.Month), d.Day)
}

// utc returns midnight of the day in UTC.
func (d Date) utc() time.Time { return time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC) }

// Compare returns -1 if d is before e, 0 if they are equal and +1 if d is after e. The zero
// Date is before all days.
func (d Date) Compare(e Date) int { return d.utc().Compare(e.utc()) }

// Validate returns an [*ArgumentError] if the day does not exist, such as February 30, or if
// it is outside the years 1 to 9999. It rejects January 1 of the year 1 too, see [DateOf]. The
// zero Date is valid.
func (d Date) Validate() error {
	if d.IsZero() {
		return nil
	}
	if DateOf(d.utc()) != d || d.Year < 1 || d.Year > 9999 {
		return &ArgumentError{Field: "date", Reason: "is not a day in the calendar"}
	}
	return nil
}

// UnmarshalJSON reads a date, "" and null. Of a timestamp, it reads the day as written,
// without conversion to another zone.
func (d *Date) UnmarshalJSON(data []byte) error {
	text, null := scalarText(data)
	if null {
		*d = Date{}
		return nil
	}
	t, err := parseTime(string(text))
	date := DateOf(t)
	if err != nil || date.Validate() != nil {
		return errors.New("not a date") // no ArgumentError, because the platform wrote it
	}
	*d = date
	return nil
}

// MarshalJSON writes the day as a string, or null for the zero Date. It fails if
// [Date.Validate] does.
func (d Date) MarshalJSON() ([]byte, error) {
	return jsonOf(d.MarshalText())
}

// UnmarshalText reads yyyy-mm-dd as [ParseDate] does. The empty text is the zero Date. YAML,
// flags and map keys use it.
func (d *Date) UnmarshalText(text []byte) error {
	return parseText(d, text, ParseDate)
}

// MarshalText writes yyyy-mm-dd, or the empty text for the zero Date. It fails if
// [Date.Validate] does.
func (d Date) MarshalText() ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	return []byte(d.String()), nil
}

// Scan implements [database/sql.Scanner] for a column of type DATE or TEXT. NULL, the empty
// text and MySQL's 0000-00-00 are the zero Date. Of a [time.Time] it reads the day in that
// time's own location. The error is an [*ArgumentError], also for a day that [Date.Validate]
// rejects, such as a day BC.
func (d *Date) Scan(source any) error {
	switch source := source.(type) {
	case nil:
		*d = Date{}
		return nil
	case string:
		return d.Scan([]byte(source))
	case []byte:
		if string(source) == "0000-00-00" {
			source = nil
		}
		return d.UnmarshalText(source)
	case time.Time:
		date := DateOf(source)
		if err := date.Validate(); err != nil {
			return err
		}
		*d = date
		return nil
	}
	return &ArgumentError{Field: "date", Reason: fmt.Sprintf("cannot be read from %T: use a DATE or TEXT column", source)}
}

// Value implements [driver.Valuer]. It returns yyyy-mm-dd for a column, or nil for the zero
// Date. It fails if [Date.Validate] does.
func (d Date) Value() (driver.Value, error) {
	return columnOf(d.MarshalText())
}

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
