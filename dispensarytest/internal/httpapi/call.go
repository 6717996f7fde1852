package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/faults"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/people"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// API handles the requests of the API.
type API struct {
	Store      *store.Store
	Clinics    people.Clinics // for the keys in requests
	Clock      *clock.Clock
	Behaviors  *rules.Current
	Tokens     *tokens.Store
	Faults     *faults.Set
	Sender     *webhooks.Sender // for the list of deliveries
	RequestIDs *ids.Requests
	Record     func(*model.Request) // into the journal
	Closed     <-chan struct{}      // ends waits

	App          model.Application
	Origin       string
	RequireTLS   bool
	ClinicTokens bool
	KeepBodies   bool // in the journal
}

// call is one request in the pipeline.
type call struct {
	api       *API
	request   *http.Request
	op        *operations.Operation
	arg       string // the value of the route's parameter
	params    params
	form      *form
	page      pageRequest
	token     *tokens.AccessToken
	behaviors *rules.Set
	now       time.Time
	record    model.Request // for the journal
	noted     bool          // whether record is in the journal
	out       notedAnswer
}

// note writes the request to the journal, once.
func (c *call) note(status int) {
	if c.noted {
		return
	}
	c.noted = true
	c.record.Status = cmp.Or(c.record.Status, status)
	c.record.AnsweredAt = c.api.Clock.Now()
	c.api.Record(&c.record)
}

// notedAnswer writes the request to the journal before the first byte of the response. So a
// client with a response finds its request there.
type notedAnswer struct {
	http.ResponseWriter
	call *call
}

// WriteHeader implements [http.ResponseWriter].
func (a *notedAnswer) WriteHeader(status int) {
	a.call.note(status)
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap implements the interface behind [http.ResponseController].
func (a *notedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// A handler handles one operation. The pipeline has checked the token and the scope and parsed
// page, query and body. It holds the world's lock, for reading if the method is GET and for
// writing otherwise. A handler that returns an error has changed nothing.
type handler func(c *call, w *store.World) (reply, error)

func (c *call) clinicID() string { return c.token.ClinicID }

// practitionerID returns the id of the calling practitioner, or "" if the token belongs to a
// staff member or to the clinic. API section: "Authentication" 4.
func (c *call) practitionerID() string {
	if user := c.token.Grant.User; user.Type == model.UserPractitioner && !c.api.ClinicTokens {
		return user.ID
	}
	return ""
}

// require checks the scope of an operation whose scope depends on the requested object.
func (c *call) require(scope string) error {
	c.record.Scopes = append(c.record.Scopes, scope)
	if c.record.Granted = c.token.Has(scope); !c.record.Granted {
		return missingScope(scope)
	}
	return nil
}

// listOf returns a page of a list.
func listOf[T, V any](c *call, rows []*T, view func(*T) V) reply {
	from, to, meta := c.page.cut(len(rows))
	if c.newestFirst() {
		from, to = len(rows)-to, len(rows)-from
	}
	page := rows[from:to]
	views := make([]V, 0, len(page))
	for _, row := range page {
		views = append(views, view(row))
	}
	if c.newestFirst() {
		slices.Reverse(views)
	}
	return reply{value: views, meta: meta}
}

// newestFirst reports whether to reverse this list: the request has no sort order, and the API
// defines none.
func (c *call) newestFirst() bool {
	return c.behaviors.NewestFirst && c.op.ID != "products.similar" && c.params.get("sort_by") == "" && c.params.get("order_by") == ""
}

// one returns a single row of a table that all clinics share.
func one[T, V any](rows table.Table[*T], id string, view func(*T) V) (reply, error) {
	row, known := rows.Rows[id]
	if !known {
		return reply{}, notFound()
	}
	return ok(view(row)), nil
}

// ofClinic returns a handler for the row of the caller's clinic with the id in the path.
func ofClinic[T any](find func(w *store.World, clinicID, id string) (*T, bool), do func(*call, *store.World, *T) (reply, error)) handler {
	return func(c *call, w *store.World) (reply, error) {
		row, known := find(w, c.clinicID(), c.arg)
		if !known {
			return reply{}, notFound()
		}
		return do(c, w, row)
	}
}

// shown returns a single row.
func shown[T, V any](view func(*T) V) func(*call, *store.World, *T) (reply, error) {
	return func(_ *call, _ *store.World, row *T) (reply, error) { return ok(view(row)), nil }
}
