package httpapi

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/actions"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/faults"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/form"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
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
	Clinics    actions.Clinics // for the keys in requests
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
	query     query
	form      *form.Form
	page      pageRequest
	token     *tokens.AccessToken
	behaviors *rules.Set
	now       time.Time
	record    entry // for the journal
	out       recordedResponse
}

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
	views := table.Map(rows[from:to], view)
	if c.newestFirst() {
		slices.Reverse(views)
	}
	return reply{value: views, meta: meta}
}

// newestFirst reports whether to reverse this list: the request has no sort order, and the API
// defines none.
func (c *call) newestFirst() bool {
	return c.behaviors.Is(behavior.UnsortedListsNewestFirst) && c.op.ID != "products.similar" && c.query.get("sort_by") == "" && c.query.get("order_by") == ""
}

// one returns a single row of a table that all clinics share.
func one[T, V any](rows table.Table[*T], id string, view func(*T) V) (reply, error) {
	row, known := table.Get(rows, id)
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

// owned returns a handler that lists the rows of the caller's clinic.
func owned[T, V any](rows func(*store.World) table.Table[*T], view func(*T) V) handler {
	return func(c *call, w *store.World) (reply, error) {
		return listOf(c, table.Of(rows(w), store.ByClinic, c.clinicID()), view), nil
	}
}

// shown returns a single row.
func shown[T, V any](view func(*T) V) func(*call, *store.World, *T) (reply, error) {
	return func(_ *call, _ *store.World, row *T) (reply, error) { return ok(view(row)), nil }
}

// order contains the comparisons of rows, by the value of sort_by.
type order[T any] map[string]func(a, b *T) int

// by compares rows by a key.
func by[T any, K cmp.Ordered](key func(*T) K) func(a, b *T) int {
	return func(a, b *T) int { return cmp.Compare(key(a), key(b)) }
}

// sorted returns rows in the order of sort_by and order_by. Among equal keys it keeps the order
// of creation in both directions. Fallback is the key of order_by alone. Without this key, DESC
// reverses the rows.
func sorted[T any](c *call, rows []*T, fallback string, keys order[T]) []*T {
	field := c.query.oneOf("sort_by", slices.Sorted(maps.Keys(keys))...)
	descending := c.query.oneOf("order_by", "ASC", "DESC") == "DESC"
	compare := keys[cmp.Or(field, fallback)]
	switch {
	case field == "" && !descending || c.query.wrong != nil:
		return rows
	case compare == nil:
		rows = slices.Clone(rows)
		slices.Reverse(rows)
		return rows
	}
	return slices.SortedStableFunc(slices.Values(rows), func(a, b *T) int {
		if descending {
			a, b = b, a
		}
		return compare(a, b)
	})
}
