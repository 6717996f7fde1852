package store

import (
	"net/mail"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Days is a date filter. A plain day comes from the API. The forms "<day", ">day" and
// "day..day" are an assumption, except ">", which one of the API's examples shows.
type Days struct {
	From, To int // inclusive, as yyyymmdd, or 0 if open
	Set      bool
}

// Holds compares calendar days in the time zone of t.
func (d Days) Holds(t time.Time) bool {
	year, month, day := t.Date()
	number := year*10_000 + int(month)*100 + day
	return !d.Set || (d.From == 0 || d.From <= number) && (d.To == 0 || number <= d.To)
}

// DayNumber returns a valid day as yyyymmdd, or 0 for an empty string.
func DayNumber(day string) int {
	n, _ := strconv.Atoi(strings.ReplaceAll(day, "-", ""))
	return n
}

func ValidDay(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

// DayAfter returns the day n days later. If s is not a day, it returns "invalid", which the
// caller rejects.
func DayAfter(s string, n int) string {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return "invalid"
	}
	return t.AddDate(0, 0, n).Format(time.DateOnly)
}

func ValidEmail(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s
}

var MobileNumber = regexp.MustCompile(`^\+[0-9]{7,15}$`)
