package api

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"time"
)

// Date is a day without time or zone, written yyyy-mm-dd. The zero value stands for null and for
// NULL. Dates compare with == and order with [Date.Compare].
// API section: "Patient" (date_of_birth).
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

// DateOf returns the day that t falls on in its own location.
func DateOf(t time.Time) Date {
	y, m, d := t.Date()
	return Date{y, m, d}
}

// ParseDate reads yyyy-mm-dd. The error is an [*ArgumentError] for "date", also for the empty
// text, and does not repeat the text.
func ParseDate(s string) (Date, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return Date{}, &ArgumentError{Field: "date", Reason: "is not a day of the form yyyy-mm-dd"}
	}
	return DateOf(t), nil
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

// Compare returns -1, 0 or +1 as d is before, equal to or after e. The zero Date is before all
// days.
func (d Date) Compare(e Date) int { return d.utc().Compare(e.utc()) }

// Validate returns an [*ArgumentError] for a day that no calendar has, such as February 30, and
// for a year that has not four digits. The zero Date is valid.
func (d Date) Validate() error {
	if d.IsZero() {
		return nil
	}
	if DateOf(d.utc()) != d || d.Year < 0 || d.Year > 9999 {
		return &ArgumentError{Field: "date", Reason: "is a day that no calendar has"}
	}
	return nil
}

// UnmarshalJSON reads a date, the day of a timestamp as it is written there, "" and null.
func (d *Date) UnmarshalJSON(data []byte) error {
	text, null := scalarText(data)
	if null {
		*d = Date{}
		return nil
	}
	if t, err := parseTime(string(text)); err == nil {
		*d = DateOf(t)
		return nil
	}
	return errors.New("not a date") // no ArgumentError, because the platform wrote it
}

// MarshalJSON writes the day as a string, or null for the zero Date. Its error is that of
// [Date.Validate].
func (d Date) MarshalJSON() ([]byte, error) {
	return jsonOf(d.MarshalText())
}

// UnmarshalText reads yyyy-mm-dd as [ParseDate] does, and the zero Date from the empty text. YAML,
// flags and keys of maps use it.
func (d *Date) UnmarshalText(text []byte) error {
	return parseText(d, text, ParseDate)
}

// MarshalText writes yyyy-mm-dd, or the empty text for the zero Date. Its error is that of
// [Date.Validate].
func (d Date) MarshalText() ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	return []byte(d.String()), nil
}

// Scan reads a column of type DATE or TEXT: it is a [database/sql.Scanner]. NULL and the empty text
// are the zero Date. Of a [time.Time] it reads the day in its own location. The error is an
// [*ArgumentError].
func (d *Date) Scan(source any) error {
	switch source := source.(type) {
	case nil:
		*d = Date{}
		return nil
	case string:
		return d.UnmarshalText([]byte(source))
	case []byte:
		return d.UnmarshalText(source)
	case time.Time:
		*d = DateOf(source)
		return nil
	}
	return &ArgumentError{Field: "date", Reason: fmt.Sprintf("cannot be read from %T: use a column of DATE or TEXT", source)}
}

// Value returns yyyy-mm-dd for a column, or nil for the zero Date: it is a [driver.Valuer]. Its
// error is that of [Date.Validate].
func (d Date) Value() (driver.Value, error) {
	return columnOf(d.MarshalText())
}
