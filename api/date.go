package api

import (
	"errors"
	"fmt"
	"time"
)

// Date is a day without time or zone, written yyyy-mm-dd. The zero value stands
// for null. Dates compare with == and order with [Date.Compare].
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

// ParseDate reads yyyy-mm-dd. Its error does not repeat the text.
func ParseDate(s string) (Date, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return Date{}, errors.New("dispensary: not a date of the form yyyy-mm-dd")
	}
	return DateOf(t), nil
}

// IsZero reports the zero Date, which stands for null.
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

// Compare returns -1, 0 or +1 as d is before, equal to or after e.
func (d Date) Compare(e Date) int { return d.utc().Compare(e.utc()) }

// Validate reports a day that no calendar has, such as February 30.
func (d Date) Validate() error {
	if !d.IsZero() && DateOf(d.utc()) != d {
		return errors.New("dispensary: no such day")
	}
	return nil
}

// MarshalJSON writes the day as a string, or null for the zero Date. A day that
// no calendar has is an error.
func (d Date) MarshalJSON() ([]byte, error) {
	if d.IsZero() {
		return []byte("null"), nil
	}
	if err := d.Validate(); err != nil {
		return nil, err
	}
	return []byte(`"` + d.String() + `"`), nil
}

// UnmarshalJSON reads a date, the day of a timestamp as it is written there,
// "" and null.
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
	return errors.New("not a date")
}
