package admin

import (
	"cmp"
	"errors"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// age is a choice of when events arrived.
type age struct {
	Value, Words string
	of           time.Duration
	older        bool // than that
}

var ages = []age{
	{"1h", "in the last hour", time.Hour, false},
	{"1d", "in the last day", 24 * time.Hour, false},
	{"7d", "in the last week", 7 * 24 * time.Hour, false},
	{"over-1h", "more than an hour ago", time.Hour, true},
	{"over-1d", "more than a day ago", 24 * time.Hour, true},
	{"over-7d", "more than a week ago", 7 * 24 * time.Hour, true},
}

// filterOf reads a filter from an address or a form. An age is turned into times, so
// that the filter matches the same later on.
func filterOf(query url.Values, now time.Time) (f engine.Filter, err error) {
	f.Type, f.ClinicID, f.Reason = events.Type(trimmed(query, "type")), trimmed(query, "clinic"), trimmed(query, "reason")
	for _, text := range query["key"] {
		var key webhook.Key
		err = errors.Join(err, key.UnmarshalText([]byte(text)))
		f.Keys = append(f.Keys, key)
	}
	for name, to := range map[string]*time.Time{"from": &f.ReceivedFrom, "before": &f.ReceivedBefore} {
		if text := query.Get(name); text != "" {
			var bad error
			*to, bad = time.Parse(time.RFC3339Nano, text)
			err = errors.Join(err, bad)
		}
	}
	if at := slices.IndexFunc(ages, func(a age) bool { return a.Value == query.Get("age") }); at >= 0 && ages[at].older {
		f.ReceivedBefore = now.Add(-ages[at].of)
	} else if at >= 0 {
		f.ReceivedFrom = now.Add(-ages[at].of)
	}
	if err = errors.Join(err, f.Until.UnmarshalText([]byte(query.Get("until")))); err != nil {
		return engine.Filter{}, errBadFilter // the text could be anything
	}
	return f, nil
}

var errBadFilter = errors.New("the address names events in a way that is not of these pages")

// mostCounted is the largest number of events that a page counts by type, clinic and reason. The
// number of all events is that of [engine.Stats].
const mostCounted = 20_000

var (
	deadOnly = []engine.State{engine.StateDead}
	notDead  = []engine.State{engine.StateWaiting, engine.StateRunning}
)

func trimmed(query url.Values, name string) string { return strings.TrimSpace(query.Get(name)) }

// queryOf is what [filterOf] reads.
func queryOf(f engine.Filter) url.Values {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("type", string(f.Type))
	set("clinic", f.ClinicID)
	set("reason", f.Reason)
	set("until", f.Until.String())
	for name, at := range map[string]time.Time{"from": f.ReceivedFrom, "before": f.ReceivedBefore} {
		if !at.IsZero() {
			set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	for _, key := range f.Keys {
		query.Add("key", key.String())
	}
	return query
}

// address is a link to a page of the package's own, with a query.
func address(path string, query url.Values) template.URL {
	if len(query) == 0 {
		return template.URL(path)
	}
	return template.URL(path + "?" + query.Encode())
}

// breakdown is how many events there are of each type, clinic or reason, the most first.
type breakdown struct {
	Title  string
	Groups []group
	More   int // groups that are not shown
}

type group struct {
	Value string
	Count int
	Link  template.URL // to these alone; empty where that is not possible
}

// mostGroups is how many groups are shown.
const mostGroups = 6

// breakdowns are those of counts. Links lead to a page with the query narrowed, if
// there is one.
func breakdowns(c engine.Counts, path string, query url.Values) []breakdown {
	types, reasons := map[string]int{}, map[string]int{}
	for t, n := range c.Types {
		types[string(t)] = n
	}
	for reason, cause := range c.Causes {
		reasons[reason] = cause.Events
	}
	return []breakdown{
		newBreakdown("Reason", "reason", reasons, path, query),
		newBreakdown("Type", "type", types, path, query),
		newBreakdown("Clinic", "clinic", c.Clinics, path, query),
	}
}

func newBreakdown(title, name string, counts map[string]int, path string, query url.Values) breakdown {
	b := breakdown{Title: title}
	values := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	b.More = max(0, len(values)-mostGroups)
	for _, value := range values[:len(values)-b.More] {
		g := group{Value: value, Count: counts[value]}
		if path != "" && value != "" {
			narrowed := maps.Clone(query)
			narrowed.Set(name, value)
			g.Link = address(path, narrowed)
		}
		b.Groups = append(b.Groups, g)
	}
	return b
}

// thousands writes a number.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
