package admin

import (
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/webpage"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// states are the choices of a list. A list without a state contains all events.
var states = map[string][]engine.State{
	"":        nil,
	"dead":    {engine.StateDead},
	"waiting": {engine.StateWaiting, engine.StateRunning},
}

// localTime is the format of a datetime-local field.
const localTime = "2006-01-02T15:04:05"

// These times in a link are relative to the time of the request.
const (
	sinceMidnight = "midnight" // in the location of the pages
	sinceHour     = "1h"
)

// filterOf reads a filter from a link or a form. If a time has no zone, it is in the location
// of now.
func filterOf(query url.Values, now time.Time) (f engine.Filter, err error) {
	f.Type, f.ClinicID, f.Reason = events.Type(trimmed(query, "type")), trimmed(query, "clinic"), trimmed(query, "reason")
	f.ID, f.NoReason = trimmed(query, "id"), query.Get("noreason") != ""
	for _, text := range query["key"] {
		var key webhook.Key
		err = errors.Join(err, key.UnmarshalText([]byte(text)))
		f.Keys = append(f.Keys, key)
	}
	for name, to := range map[string]*time.Time{"since": &f.GivenUpFrom, "before": &f.GivenUpBefore} {
		var bad error
		*to, bad = timeOf(trimmed(query, name), now)
		err = errors.Join(err, bad)
	}
	var known bool
	if f.States, known = states[query.Get("state")]; !known {
		err = errors.Join(err, errLink)
	}
	if err = errors.Join(err, f.Until.UnmarshalText([]byte(query.Get("until")))); err != nil {
		return engine.Filter{}, errLink
	}
	return f, nil
}

// timeOf reads a time from a link, or from a field in one of the formats of browsers.
func timeOf(text string, now time.Time) (t time.Time, err error) {
	switch text {
	case "":
		return t, nil
	case sinceMidnight:
		return time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location()), nil
	case sinceHour:
		return now.Add(-time.Hour), nil
	}
	for _, form := range []string{time.RFC3339Nano, localTime, "2006-01-02T15:04", time.DateOnly} {
		if t, err = time.ParseInLocation(form, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return t, err
}

var errLink = errors.New("admin: link without a valid filter") // without the link, which may contain any text

func trimmed(query url.Values, name string) string { return strings.TrimSpace(query.Get(name)) }

// queryOf returns a query for [filterOf].
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
	set("id", f.ID)
	if f.NoReason {
		set("noreason", "1")
	}
	set("until", f.Until.String())
	for name, states := range states {
		if f.States != nil && slices.Equal(states, f.States) {
			set("state", name)
		}
	}
	for name, at := range map[string]time.Time{"since": f.GivenUpFrom, "before": f.GivenUpBefore} {
		if !at.IsZero() {
			set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	for _, key := range f.Keys {
		query.Add("key", key.String())
	}
	return query
}

// shortReason returns a reason without common prefixes, as plain text.
func shortReason(reason string) string {
	for _, prefix := range []string{"permanent: ", "dispensary: ", "error of type "} {
		reason = strings.TrimPrefix(reason, prefix)
	}
	return webpage.Plain(reason)
}

// plural formats a number of things. It adds an s to the name unless the number is one.
func plural(n int, name string) string {
	if n != 1 {
		name += "s"
	}
	return fmt.Sprintf("%s %s", number(n), name)
}

// option is a choice of a filter.
type option struct {
	Value, Text string
	Count       int
	Selected    bool
}

// optionsOf returns the values in counts and the selected value, sorted.
func optionsOf[T ~string, N any](counts map[T]N, selected T, count func(N) int) (all []option) {
	values := slices.Collect(maps.Keys(counts))
	if _, found := counts[selected]; !found {
		values = append(values, selected)
	}
	slices.Sort(values)
	for _, value := range values {
		if value != "" {
			n := count(counts[value])
			all = append(all, option{string(value), shortReason(string(value)) + " (" + number(n) + ")", n, value == selected})
		}
	}
	return all
}

func same(n int) int { return n }

const badLink = "This link is not valid."

// address returns a link to a page of this package.
func address(path string, query url.Values) template.URL {
	if len(query) == 0 {
		return template.URL(path)
	}
	return template.URL(path + "?" + query.Encode())
}

// pathOf returns the navigation entry for events in a state.
func pathOf(state engine.State) string {
	if state == engine.StateDead {
		return "events?state=dead"
	}
	return "events?state=waiting"
}

// shortcut is a link to the same page for dead letters since a time.
type shortcut struct {
	Name    string
	Link    template.URL
	Current bool
}

// shortcuts returns links to a page for dead letters since [sinceMidnight], since [sinceHour]
// and of any time.
func shortcuts(path string, query url.Values, f engine.Filter) (all []shortcut) {
	f.GivenUpFrom, f.GivenUpBefore, f.Until = time.Time{}, time.Time{}, engine.Position{}
	for _, choice := range [][2]string{{"Since midnight", sinceMidnight}, {"In the last hour", sinceHour}, {"At any time", ""}} {
		narrowed := queryOf(f)
		for name, value := range map[string]string{"since": choice[1], "action": query.Get("action"), "from": query.Get("from")} {
			if value != "" {
				narrowed.Set(name, value)
			}
		}
		all = append(all, shortcut{choice[0], address(path, narrowed), query.Get("since") == choice[1]})
	}
	return all
}

// back returns the link to the list in the query's parameter from. It never leads to another
// path.
func back(query url.Values, did string) template.URL {
	list, _ := url.ParseQuery(query.Get("from"))
	if did != "" {
		list.Set("did", did)
	}
	return address("events", list)
}

// redirect redirects to a page of this package. [http.Redirect] does not know the mount path.
func redirect(w http.ResponseWriter, to template.URL) {
	w.Header().Set("Location", string(to))
	w.WriteHeader(http.StatusSeeOther)
}

func bulkAddress(name Action, f engine.Filter, from string) template.URL {
	query := queryOf(f)
	query.Set("action", string(name))
	if from != "" {
		query.Set("from", from)
	}
	return address("bulk", query)
}
