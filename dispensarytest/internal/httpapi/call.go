package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
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
	params    params
	form      *form.Form
	page      pageRequest
	token     *tokens.AccessToken
	behaviors *rules.Set
	now       time.Time
	record    model.Request // for the journal
	noted     bool          // whether record is in the journal
	out       recordedResponse
	wrong     error // of the first invalid parameter
}

// note writes the request to the journal, once.
func (c *call) note(status int) {
	if c.noted {
		return
	}
	c.noted = true
	c.record.Status = cmp.Or(c.record.Status, status)
	c.record.RespondedAt = c.api.Clock.Now()
	c.api.Record(&c.record)
}

// recordedResponse writes the request to the journal before the first byte of the response. So a
// client with a response finds its request there.
type recordedResponse struct {
	http.ResponseWriter
	call *call
}

// WriteHeader implements [http.ResponseWriter].
func (a *recordedResponse) WriteHeader(status int) {
	a.call.note(status)
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap implements the interface behind [http.ResponseController].
func (a *recordedResponse) Unwrap() http.ResponseWriter { return a.ResponseWriter }

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
	return c.behaviors.Is(behavior.UnsortedListsNewestFirst) && c.op.ID != "products.similar" && c.params.get("sort_by") == "" && c.params.get("order_by") == ""
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

// maxPageSize limits page[size]: an assumption, because the API does not document it.
const maxPageSize = 100

// params are a request's query parameters.
type params url.Values

func parseParams(raw string) (params, error) {
	if raw == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, badRequest("The query string is malformed")
	}
	return params(values), nil
}

// get returns the last value of a parameter, as the platform does.
func (p params) get(name string) string {
	values := p[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

func (p params) page(behaviors *rules.Set) (pageRequest, error) {
	number, err := p.count("page[number]", 1)
	if err != nil {
		return pageRequest{}, err
	}
	size, err := p.count("page[size]", behaviors.PageSize())
	if err != nil {
		return pageRequest{}, err
	}
	if size > maxPageSize && behaviors.Is(behavior.OversizedPageRejected) {
		return pageRequest{}, invalid("page[size] must not be above 100")
	}
	return pageRequest{number: number, size: min(size, maxPageSize)}, nil
}

// count reads a positive number. Assumption: other values are rejected with 422, and so are
// malformed values of other parameters.
func (p params) count(name string, fallback int) (int, error) {
	text := p.get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1_000_000_000 {
		return 0, invalid(name + " must be a whole number above 0")
	}
	return n, nil
}

// reject makes the response of a GET request an error, whatever its handler returns. Only the
// first call has an effect.
func (c *call) reject(message string) {
	if c.wrong == nil {
		c.wrong = invalid(message)
	}
}

// oneOf reads a parameter with a fixed set of values. It returns "" if the parameter is
// absent.
func (c *call) oneOf(name string, allowed ...string) string {
	value := c.params.get(name)
	if value != "" && !slices.Contains(allowed, value) {
		c.reject(name + " must be one of " + strings.Join(allowed, ", "))
	}
	return value
}

func (c *call) days(name string) store.Days {
	text := c.params.get(name)
	if text == "" {
		return store.Days{}
	}
	from, to, isRange := strings.Cut(text, "..")
	switch {
	case isRange:
	case text[0] == '<':
		from, to = "", store.DayAfter(text[1:], -1)
	case text[0] == '>':
		from, to = store.DayAfter(text[1:], 1), ""
	default:
		to = from
	}
	open := text[0] == '<' || text[0] == '>'
	if !(store.ValidDay(from) || open && from == "") || !(store.ValidDay(to) || open && to == "") || from == to && from == "" {
		c.reject(name + " must be a date (yyyy-mm-dd)")
	}
	return store.Days{From: from, To: to, Set: true}
}

// pageMeta is the meta object of a list. API section: "Pagination".
type pageMeta struct {
	CurrentPage int  `json:"current_page"`
	NextPage    *int `json:"next_page"`
	PrevPage    *int `json:"prev_page"`
	TotalPages  int  `json:"total_pages"`
	TotalCount  int  `json:"total_count"`
}

// pageRequest is the requested page of a list.
type pageRequest struct{ number, size int }

// cut returns the rows of a page and its meta object. Assumption: a page beyond the last is
// empty and has no neighbors.
func (p pageRequest) cut(total int) (from, to int, meta *pageMeta) {
	pages := (total + p.size - 1) / p.size
	meta = &pageMeta{CurrentPage: p.number, TotalPages: pages, TotalCount: total}
	if p.number > pages {
		return 0, 0, meta
	}
	if p.number > 1 {
		meta.PrevPage = new(p.number - 1)
	}
	if p.number < pages {
		meta.NextPage = new(p.number + 1)
	}
	from = (p.number - 1) * p.size
	return from, min(from+p.size, total), meta
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
	field := c.oneOf("sort_by", slices.Sorted(maps.Keys(keys))...)
	descending := c.oneOf("order_by", "ASC", "DESC") == "DESC"
	compare := keys[cmp.Or(field, fallback)]
	switch {
	case field == "" && !descending || c.wrong != nil:
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

// largestBody is the maximum size of a body in the journal. It cuts off longer bodies.
const largestBody = 16 << 10

// keepRequestBody records the body of the request. The body can still be read.
func (c *call) keepRequestBody() {
	if !c.api.KeepBodies {
		return
	}
	body, _ := io.ReadAll(io.LimitReader(c.request.Body, MaxBody+1)) // reading the form repeats the error
	c.record.RequestBody = c.shown(body)
	c.request.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), c.request.Body), c.request.Body}
}

// keepResponse returns a function that records the response body after rewrite.
func (c *call) keepResponse(rewrite func([]byte) []byte) func([]byte) []byte {
	if !c.api.KeepBodies {
		return rewrite
	}
	return func(body []byte) []byte {
		if rewrite != nil {
			body = rewrite(body)
		}
		c.record.ResponseBody = c.shown(body)
		return body
	}
}

// shown returns the body for the journal. Bodies of the token endpoints contain secrets. If
// such a body is not JSON, they may be anywhere in it.
func (c *call) shown(body []byte) []byte {
	if c.op != nil && c.op.Open && len(body) > 0 {
		body = masked(body)
	}
	return slices.Clone(body[:min(len(body), largestBody)])
}

// secretMembers are the masked members of the token endpoints' bodies.
var secretMembers = []string{"access_token", "client_secret", "code", "refresh_token", "token"}

// masked returns a JSON document without its secrets.
func masked(body []byte) []byte {
	var document any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if decoder.Decode(&document) != nil {
		return []byte("not JSON, so not recorded: it may contain a token")
	}
	if text, isString := document.(string); isString && text != "" {
		document = "***"
	}
	mask(document)
	shown, _ := json.Marshal(document) // it was decoded from JSON
	return shown
}

func mask(document any) {
	switch value := document.(type) {
	case map[string]any:
		for name, member := range value {
			if slices.Contains(secretMembers, name) {
				value[name] = "***"
			} else {
				mask(member)
			}
		}
	case []any:
		for _, element := range value {
			mask(element)
		}
	}
}
