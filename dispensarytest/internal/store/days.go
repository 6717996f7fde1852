package store

import (
	"net/mail"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Days is a date filter. A plain day is from the API; "<day", ">day" and
// "day..day" are an assumption but for the ">" that one of its examples shows.
type Days struct {
	From, To int // inclusive, as yyyymmdd; 0 is open
	Set      bool
}

// Holds compares calendar days in the zone the timestamp is written in.
func (d Days) Holds(t time.Time) bool {
	year, month, day := t.Date()
	number := year*10_000 + int(month)*100 + day
	return !d.Set || (d.From == 0 || d.From <= number) && (d.To == 0 || number <= d.To)
}

// DayNumber is a valid day as yyyymmdd; 0 for none.
func DayNumber(day string) int {
	n, _ := strconv.Atoi(strings.ReplaceAll(day, "-", ""))
	return n
}

func ValidDay(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

// DayAfter moves a day; an invalid one comes back as it is, to be refused.
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
