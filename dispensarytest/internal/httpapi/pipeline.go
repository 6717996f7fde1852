// Package httpapi implements the HTTP API of the platform: the pipeline of every request, the
// router, parameters and bodies, the handlers by resource, the token endpoints and the
// authorize page. Its collaborators are the fields of [API].
//
// [API.ServeHTTP] finds the operation of a request and applies faults. It then checks token,
// clinic key and scope, reads page, query and body, and runs the handler under the store's
// lock. It records the request in the journal before it sends the first byte of the response.
package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/form"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Paths below the server's origin. The API's base URL and the browser's URL differ, so that an
// integrator who confuses them notices it.
const (
	BasePath = "/api"
	AuthPath = "/auth"
)

// ServeHTTP runs the pipeline of a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{api: a, request: r, behaviors: a.Behaviors.Get(), now: a.Clock.Now()}
	c.record = entry{api: a, Request: model.Request{
		At: c.now, ID: a.RequestIDs.Next(), Method: r.Method,
		Path: r.URL.EscapedPath(), Query: r.URL.RawQuery,
	}}
	w.Header()["X-Request-Id"] = []string{c.record.ID}
	c.out = recordedResponse{w, &c.record}
	w = &c.out
	defer c.record.write(0) // if no response is sent
	defer c.rescue(w)

	found, err := c.route()
	if err != nil {
		c.writeError(w, err)
		return
	}
	if c.op.Open && found.page == nil { // RFC 6749 5.1
		w.Header()["Cache-Control"], w.Header()["Pragma"] = []string{"no-store"}, []string{"no-cache"}
	}
	if w, err = c.injectFaults(w); err != nil {
		c.writeError(w, err)
		return
	}
	if found.page != nil {
		c.record.Status = found.page(&browserPage{c, w})
		return
	}
	rep, err := c.serve(found.handle)
	if err != nil {
		c.writeError(w, err)
		return
	}
	c.send(w, rep)
}

// route checks the transport and finds the operation.
func (c *call) route() (*endpoint, error) {
	if c.api.RequireTLS && c.request.TLS == nil {
		// The API defines a call over HTTP as an error. The status is an assumption.
		p := problemOf(http.StatusForbidden, "HTTPS is required")
		p.insecure = true
		return nil, p
	}
	path := c.record.Path
	below, inBase := strings.CutPrefix(path, BasePath)
	if !inBase {
		// The browser's URL serves only the authorize page.
		if path != AuthPath+"/oauth/authorize" {
			return nil, notFound()
		}
		below = "/oauth/authorize"
	}
	at := findRoute(below, &c.arg)
	if at == nil {
		return nil, notFound()
	}
	found := at.ops[c.request.Method]
	if found == nil {
		for method, other := range at.ops {
			c.record.Near = append(c.record.Near, method+" "+other.Route)
		}
		slices.Sort(c.record.Near)
		return nil, notFound()
	}
	c.op = &found.Operation
	c.record.Operation, c.record.Route, c.record.secret = c.op.ID, c.op.Route, c.op.Open
	return found, nil
}

// serve runs an API request from the check of its token to the reply of its handler.
func (c *call) serve(with handler) (reply, error) {
	malformed := c.readQuery() // first, so that the journal shows unknown parameters of rejected requests
	if !c.op.Open {
		if err := c.authenticate(); err != nil {
			return reply{}, err
		}
	}
	if malformed != nil {
		return reply{}, c.unreadable(malformed)
	}
	if n := len(c.record.Unknown); n > 0 && c.behaviors.Is(behavior.UnknownParametersRejected) && !c.op.Open {
		return reply{}, invalid("Unknown parameter: " + c.record.Unknown[0].Name)
	}
	if err := c.parse(); err != nil {
		return reply{}, c.unreadable(err)
	}
	rep, err := c.handle(with)
	if p := (*problem)(nil); err == nil || errors.As(err, &p) && p.status == http.StatusUnprocessableEntity {
		c.record.Unread = c.form.Unread()
	}
	if c.behaviors.Is(behavior.PageBeyondLastNotFound) && rep.meta != nil && rep.meta.CurrentPage > max(rep.meta.TotalPages, 1) {
		return reply{}, notFound()
	}
	return rep, err
}

// unreadable returns the error of an unreadable request. For the token endpoints it has the
// format of RFC 6749.
func (c *call) unreadable(err error) error {
	var p *problem
	if c.op.Open && errors.As(err, &p) {
		return oauthProblem(p.status, "invalid_request", p.Error())
	}
	return err
}

// handle runs the handler under the world's lock.
func (c *call) handle(with handler) (reply, error) {
	if c.op.Method == http.MethodGet {
		c.api.Store.RLock()
		defer c.api.Store.RUnlock()
	} else {
		c.api.Store.Lock()
		defer c.api.Store.Unlock()
	}
	rep, err := with(c, c.api.Store.World)
	if c.query.wrong != nil {
		return reply{}, c.query.wrong
	}
	return rep, err
}

func (c *call) readQuery() (err error) {
	c.query, err = parseQuery(c.request.URL.RawQuery)
	c.record.Unknown = form.Strays("", c.query.values, c.op.Query)
	return err
}

// parse reads page and body.
func (c *call) parse() (err error) {
	if c.op.List {
		if c.page, err = c.query.page(c.behaviors); err != nil {
			return err
		}
	}
	if c.op.Method != http.MethodGet {
		c.record.keepRequestBody(c.request)
		c.form, err = readForm(c.request)
	}
	return err
}

// MaxBody is the maximum size of a request body. The status 413 beyond it is an assumption.
const MaxBody = 1 << 20

func readForm(r *http.Request) (*form.Form, error) {
	f := form.New(form.Label)
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
	switch {
	case err != nil:
		return f, badRequest("The request body could not be read")
	case len(body) > MaxBody:
		return f, problemOf(http.StatusRequestEntityTooLarge, "The request body is too large")
	case len(bytes.TrimSpace(body)) == 0:
		return f, nil
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return f, badRequest("The request body must be JSON (Content-Type: application/json)")
	}
	if err := f.Decode(body); err != nil {
		return f, badRequest("The request body " + err.Error())
	}
	return f, nil
}

// writeError sends a problem as the response.
func (c *call) writeError(w http.ResponseWriter, err error) {
	var p *problem
	if !errors.As(err, &p) {
		p = problemOf(http.StatusInternalServerError, err.Error())
	}
	if c.op == nil && p.status == http.StatusNotFound && c.fromBrowser() {
		c.record.Status = (&browserPage{c, w}).problem(p.status, "There is no page at this URL. The API is at "+c.api.Origin+BasePath+".")
		return
	}
	c.record.Status, c.record.Errors = p.sentStatus(c.behaviors), p.messages
	if p.header[0] != "" {
		w.Header()[p.header[0]] = []string{p.header[1]}
	}
	if p.html {
		writeProxyPage(w, c.record.Status)
		return
	}
	c.write(w, reply{bare: true, value: p.body(c.behaviors, c.record.Status)}, "")
}

// fromBrowser reports whether a browser opened a URL outside the API.
func (c *call) fromBrowser() bool {
	return !strings.HasPrefix(c.record.Path, BasePath) && strings.Contains(c.request.Header.Get("Accept"), "text/html")
}

func (c *call) send(w http.ResponseWriter, rep reply) {
	c.record.Status = max(rep.status, http.StatusOK)
	if c.behaviors.Is(behavior.SuccessStatusAlways200) {
		c.record.Status = http.StatusOK
	}
	c.write(w, rep, c.op.Key)
}

func (c *call) write(w http.ResponseWriter, rep reply, key string) {
	writeJSON(w, c.record.Status, rep, key, c.record.keepResponse(view.Rewriter(c.behaviors)))
}

// rescue turns a bug of this package into a response, so that it does not look like a broken
// connection.
func (c *call) rescue(w http.ResponseWriter) {
	if cause := recover(); cause != nil {
		if cause == http.ErrAbortHandler {
			panic(cause)
		}
		c.writeError(w, fmt.Errorf("dispensarytest: %v", cause))
	}
}

// authenticate checks the bearer token, the clinic key if one is sent, and the
// operation's scope.
func (c *call) authenticate() error {
	scheme, value, _ := strings.Cut(c.request.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || value == "" {
		return noToken()
	}
	token, rejection := c.api.Tokens.Check(value, c.now)
	if token != nil {
		c.record.TokenID, c.record.UserID = token.ID, token.Grant.User.ID
	}
	if rejection != "" {
		return unauthorized(rejection)
	}
	c.token = token
	if err := c.checkClinicKey(); err != nil {
		return err
	}
	if c.op.Scope == "" {
		return nil
	}
	c.record.Scopes, c.record.Granted = c.op.Needs, token.Has(c.op.Scope)
	if !c.record.Granted {
		return missingScope(c.op.Scope)
	}
	return nil
}

// checkClinicKey checks the key if there is one. It requires one only if the behavior does.
func (c *call) checkClinicKey() error {
	key := c.request.Header.Get("X-SVC-Clinic-Key")
	needed := c.behaviors.Is(behavior.ClinicKeyHeaderAlways) || c.behaviors.Is(behavior.ClinicKeyHeaderClinicEndpoint) && c.op.ID == "clinic.get"
	switch {
	case key != "":
		if rejection := c.api.Clinics.UseKey(key, c.token.ClinicID); rejection != "" {
			return problemOf(http.StatusUnauthorized, rejection)
		}
	case needed:
		return problemOf(http.StatusUnauthorized, "The clinic key is missing")
	}
	return nil
}

// endpoint is an operation with its handler or page.
type endpoint struct {
	operations.Operation
	handle handler
	page   pageHandler
}

// route is a path of the API with its operations by method. It has at most one parameter.
type route struct {
	segments []string // a parameter in braces
	params   int
	ops      map[string]*endpoint
}

// routes returns the table by route, with routes without parameters first. It is built once
// per process.
var routes = sync.OnceValue(func() (all []*route) {
	responded, known := handlers(), make(map[string]*route)
	pages := map[string]pageHandler{"GET": authorizePage, "POST": authorizeResponse}
	for _, op := range operations.All() {
		found := &endpoint{Operation: op, handle: responded[op.ID]}
		if op.Page {
			found.page = pages[op.Method]
		}
		if known[op.Route] == nil {
			known[op.Route] = &route{segments: strings.Split(op.Route, "/"), params: strings.Count(op.Route, "{"), ops: make(map[string]*endpoint, 1)}
			all = append(all, known[op.Route])
		}
		known[op.Route].ops[op.Method] = found
	}
	slices.SortStableFunc(all, func(a, b *route) int { return a.params - b.params })
	return all
})

// findRoute returns the route of an escaped path below the base URL, or nil. It stores the
// value of the parameter in arg.
func findRoute(path string, arg *string) *route {
	segments := strings.Split(path, "/")
	for _, r := range routes() {
		if r.matches(segments, arg) {
			return r
		}
	}
	return nil
}

func (r *route) matches(path []string, arg *string) bool {
	if len(path) != len(r.segments) {
		return false
	}
	for i, segment := range r.segments {
		if !strings.HasPrefix(segment, "{") {
			if segment != path[i] {
				return false
			}
			continue
		}
		value, err := url.PathUnescape(path[i])
		if err != nil || value == "" {
			return false
		}
		*arg = value
	}
	return true
}

// handlers returns the handler of each operation by its id.
func handlers() map[string]handler {
	return map[string]handler{
		"oauth.token":                        createToken,
		"oauth.revoke":                       revokeToken,
		"dynamic_links.get":                  ofPlan(getDynamicLink),
		"dynamic_links.new":                  newDynamicLink,
		"dynamic_links.create":               createDynamicLink,
		"allergens.list":                     listTerms(allergens),
		"allergens.get":                      getTerm(allergens),
		"brands.list":                        listBrands,
		"brands.get":                         getBrand,
		"ingredients.list":                   listTerms(ingredients),
		"ingredients.get":                    getTerm(ingredients),
		"practitioner_types.list":            listPractitionerTypes,
		"products.list":                      listProducts,
		"products.get":                       getProduct,
		"products.search":                    searchProducts,
		"products.similar":                   listSimilarProducts,
		"supplement_types.list":              listTerms(supplementTypes),
		"supplement_types.get":               getTerm(supplementTypes),
		"third_party_certifications.list":    listTerms(certifications),
		"third_party_certifications.get":     getTerm(certifications),
		"variants.get":                       getVariant,
		"clinic.get":                         getClinic,
		"addresses.list":                     ofClinic((*store.World).PatientOf, listAddresses),
		"categories.list":                    owned(func(w *store.World) table.Table[*store.Category] { return w.Categories }, viewCategory),
		"categories.get":                     ofClinic((*store.World).CategoryOf, getCategory),
		"categories.products":                ofClinic((*store.World).CategoryOf, listCategoryProducts),
		"orders.list_for_patient":            ofClinic((*store.World).PatientOf, listPatientOrders),
		"orders.get":                         ofClinic((*store.World).OrderOf, shown(view.Order)),
		"orders.list":                        listOrders,
		"patients.list":                      owned(func(w *store.World) table.Table[*model.Patient] { return w.Patients }, view.PatientItem),
		"patients.get":                       ofClinic((*store.World).PatientOf, getPatient),
		"patients.create":                    createPatient,
		"patients.update":                    ofClinic((*store.World).PatientOf, updatePatient),
		"patients.search":                    searchPatients,
		"practitioners.list":                 owned(func(w *store.World) table.Table[*store.Colleague] { return w.Practitioners }, view.Colleague),
		"practitioners.get":                  ofClinic((*store.World).PractitionerOf, shown(view.Colleague)),
		"practitioners.create":               createPractitioner,
		"practitioners.update":               ofClinic((*store.World).PractitionerOf, updatePractitioner),
		"staff.list":                         owned(func(w *store.World) table.Table[*store.Colleague] { return w.Staff }, view.Colleague),
		"staff.get":                          ofClinic((*store.World).StaffOf, shown(view.Colleague)),
		"staff.create":                       createStaff,
		"staff.update":                       ofClinic((*store.World).StaffOf, updateStaff),
		"protocols.get":                      ofClinic((*store.World).ProtocolOf, shown(viewProtocol)),
		"protocols.list":                     ofClinic((*store.World).PractitionerOf, listProtocols),
		"templates.get":                      ofClinic((*store.World).ProtocolOf, shown(viewTemplate)),
		"templates.list":                     ofClinic((*store.World).PractitionerOf, listTemplates),
		"treatment_plans.list":               ofClinic((*store.World).PatientOf, listPlans),
		"treatment_plans.create":             createPlan,
		"treatment_plans.get":                ofPlan(getPlan),
		"treatment_plans.update":             ofPlan(updatePlan),
		"treatment_plans.cancel":             ofPlan(cancelPlan),
		"treatment_plans.activate":           ofPlan(activatePlan),
		"treatment_plans.in_office_checkout": ofPlan(checkoutPlan),
		"metadata.list":                      listMetadata,
		"events.get":                         getEvent,
		"events.list_clinic_keys":            listEvents("clinic_key"),
		"events.list_patients":               listEvents("patient"),
		"events.list_treatment_plans":        listEvents("treatment_plan"),
		"events.list_orders":                 listEvents("order"),
		"events.list_products":               listEvents("product"),
		"webhook_deliveries.list":            listDeliveries,
	}
}
