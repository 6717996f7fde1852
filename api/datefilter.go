package api

import "net/url"

// DateFilter keeps what happened on some days: [DateOn] a day, [DateBefore] or [DateAfter]
// it, or [DateRange] two. The zero value keeps everything. Days are the
// platform's, which does not say in which time zone it reckons.
//
// The API names a day and shows one comparison (>); the other forms are an
// assumption.
// API section: "Orders" (completed_at), "Events" (created_at), "Webhook
// deliveries" (attempted_at).
type DateFilter struct {
	form     dateForm
	from, to Date
}

type dateForm uint8

const (
	anyDay dateForm = iota
	onDay
	beforeDay
	afterDay
	betweenDays
)

// DateOn keeps what happened on day.
func DateOn(day Date) DateFilter { return DateFilter{form: onDay, from: day} }

// DateBefore keeps what happened on the days before day.
func DateBefore(day Date) DateFilter { return DateFilter{form: beforeDay, from: day} }

// DateAfter keeps what happened on the days after day.
func DateAfter(day Date) DateFilter { return DateFilter{form: afterDay, from: day} }

// DateRange keeps what happened from first to last, both included.
func DateRange(first, last Date) DateFilter {
	return DateFilter{form: betweenDays, from: first, to: last}
}

// IsZero reports the filter that keeps everything.
func (f DateFilter) IsZero() bool { return f.form == anyDay }

// String returns the filter as it is sent, for example ">2026-03-04"; "" for the
// zero value.
func (f DateFilter) String() string {
	switch f.form {
	case onDay:
		return f.from.String()
	case beforeDay:
		return "<" + f.from.String()
	case afterDay:
		return ">" + f.from.String()
	case betweenDays:
		return f.from.String() + ".." + f.to.String()
	}
	return ""
}

// EncodeValues adds the filter to a query. Days that are missing or that no
// calendar has, and an end before the beginning, are an [ArgumentError].
func (f DateFilter) EncodeValues(key string, values *url.Values) error {
	if f.IsZero() {
		return nil
	}
	days := []Date{f.from}
	if f.form == betweenDays {
		days = append(days, f.to)
	}
	for _, day := range days {
		if day.IsZero() || day.Validate() != nil {
			return &ArgumentError{Field: key, Reason: "holds no day of the calendar"}
		}
	}
	if f.form == betweenDays && f.to.Compare(f.from) < 0 {
		return &ArgumentError{Field: key, Reason: "ends before it begins"}
	}
	values.Set(key, f.String())
	return nil
}
