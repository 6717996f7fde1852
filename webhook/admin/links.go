package admin

import (
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/dispensary-go/dispensary/webhook/engine"
)

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

// backOf returns the query of a list page, for a link back to it.
func backOf(f engine.Filter, after engine.Position) string {
	query := queryOf(f)
	if !after.IsZero() {
		query.Set("after", after.String())
	}
	return query.Encode()
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
