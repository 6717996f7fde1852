package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/faults"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/people"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Paths below the server's origin. The API's base address and the browser's
// address differ, so that an integrator who confuses them finds out.
const (
	BasePath = "/api"
	AuthPath = "/auth"
)

// Call is one request on its way through the pipeline.
type Call struct {
	API    *API
	R      *http.Request
	op     *endpoint
	args   Args
	params Params
	form   *form
	page   pageRequest
	token  *tokens.AccessToken
	Reads  *behavior.Set
	now    time.Time
	Record model.Request // what the journal will know
	noted  bool          // it knows
	out    notedAnswer
}

// note writes the request into the journal, once.
func (c *Call) note(status int) {
	if c.noted {
		return
	}
	c.noted = true
	c.Record.Status = cmp.Or(c.Record.Status, status)
	c.API.Record(&c.Record)
}

// notedAnswer is an answer whose request is in the journal before any of it is sent:
// who was answered finds what they asked for.
type notedAnswer struct {
	http.ResponseWriter
	call *Call
}

// WriteHeader implements [http.ResponseWriter].
func (a *notedAnswer) WriteHeader(status int) {
	a.call.note(status)
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (a *notedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// reply is a handler's answer.
type reply struct {
	status int // 0 is 200
	bare   bool
	value  any
	meta   *pageMeta
}

// ok answers with a value under the operation's key.
func ok(value any) reply { return reply{value: value} }

// created is ok with 201. API success codes are an assumption.
func created(value any) reply { return reply{status: http.StatusCreated, value: value} }

// bare answers with a value that is not wrapped.
func bare(value any) reply { return reply{bare: true, value: value} }

// API answers the calls of the API.
type API struct {
	Store      *store.Store
	Clock      *clock.Clock
	Behaviors  *behavior.Current
	Tokens     *tokens.Store
	Faults     *faults.Set
	Sender     *webhooks.Sender // whose log of deliveries is listed
	People     *people.People   // notified of the first use of a clinic key
	RequestIDs *ids.Requests
	Record     func(*model.Request) // into the journal
	Closed     <-chan struct{}      // ends waits

	App          model.Application
	Origin       string
	RequireTLS   bool
	ClinicTokens bool
	Compatible   uint64 // seed of the changes that break no client; 0 for none
}

// ServeHTTP is the one pipeline of every request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &Call{API: a, R: r, Reads: a.Behaviors.Get(), now: a.Clock.Now()}
	c.Record = model.Request{
		At: c.now, ID: a.RequestIDs.Next(), Method: r.Method,
		Path: r.URL.EscapedPath(), Query: r.URL.RawQuery,
	}
	w.Header()["X-Request-Id"] = []string{c.Record.ID}
	c.out = notedAnswer{w, c}
	w = &c.out
	defer c.note(0) // where no answer is sent
	defer c.Rescue(w)

	if err := c.route(); err != nil {
		c.Refuse(w, err)
		return
	}
	if c.op.Open && c.op.page == nil { // RFC 6749 5.1
		w.Header()["Cache-Control"], w.Header()["Pragma"] = []string{"no-store"}, []string{"no-cache"}
	}
	w, err := c.meetFaults(w)
	if err != nil {
		c.Refuse(w, err)
		return
	}
	if c.op.page != nil {
		c.Record.Status = c.op.page(c, w)
		return
	}
	rep, err := c.answer()
	if err != nil {
		c.Refuse(w, err)
		return
	}
	c.send(w, rep)
}

// route checks the transport and finds the operation.
func (c *Call) route() error {
	if c.API.RequireTLS && c.R.TLS == nil {
		// The API says that a call over HTTP is an error; the status is an
		// assumption.
		p := problemOf(http.StatusForbidden, "HTTPS is required")
		p.insecure = true
		return p
	}
	path := c.Record.Path
	below, inBase := strings.CutPrefix(path, BasePath)
	if !inBase {
		// Only the authorize page is served at the browser's address.
		if path != AuthPath+"/oauth/authorize" {
			return notFound()
		}
		below = "/oauth/authorize"
	}
	found := Routes().Find(below, &c.args)
	if found == nil {
		return notFound()
	}
	if c.op = found.Ops[c.R.Method]; c.op == nil {
		for method, other := range found.Ops {
			nearOperation(&c.Record, method+" "+other.Route)
		}
		return notFound()
	}
	c.Record.Operation, c.Record.Route = c.op.ID, c.op.Route
	return nil
}

// answer takes an API request from its token to the handler's answer.
func (c *Call) answer() (reply, error) {
	malformed := c.readQuery() // first: what is unknown shows in the journal of refused requests, too
	if !c.op.Open {
		if err := c.authenticate(); err != nil {
			return reply{}, err
		}
	}
	if malformed != nil {
		return reply{}, c.unreadable(malformed)
	}
	if n := len(c.Record.Unknown); n > 0 && c.Reads.RefuseUnknown && !c.op.Open {
		return reply{}, invalid("Unknown parameter: " + c.Record.Unknown[0].Name)
	}
	if err := c.parse(); err != nil {
		return reply{}, c.unreadable(err)
	}
	rep, err := c.handle()
	if p := (*problem)(nil); err == nil || errors.As(err, &p) && p.status == http.StatusUnprocessableEntity {
		c.Record.Unread = c.form.unread()
	}
	if c.Reads.RefuseBeyond && rep.meta != nil && rep.meta.CurrentPage > max(rep.meta.TotalPages, 1) {
		return reply{}, notFound()
	}
	return rep, err
}

// unreadable is a request that could not be read, in the words of RFC 6749 where that
// is about tokens.
func (c *Call) unreadable(err error) error {
	var p *problem
	if c.op.Open && errors.As(err, &p) {
		return oauthProblem(p.status, "invalid_request", p.Error())
	}
	return err
}

// handle runs the handler under the world's lock.
func (c *Call) handle() (reply, error) {
	if c.op.Method == http.MethodGet {
		c.API.Store.RLock()
		defer c.API.Store.RUnlock()
	} else {
		c.API.Store.Lock()
		defer c.API.Store.Unlock()
	}
	return c.op.handle(c, c.API.Store.World)
}

func (c *Call) readQuery() (err error) {
	c.params, err = parseParams(c.R.URL.RawQuery)
	c.Record.Unknown = c.params.unknown(c.op.Query)
	return err
}

// parse reads page and body.
func (c *Call) parse() (err error) {
	if c.op.List {
		if c.page, err = c.params.page(c.Reads); err != nil {
			return err
		}
	}
	if c.op.Method != http.MethodGet {
		c.form, err = readForm(c.R, c.Reads.RefuseUnread)
	}
	return err
}

// arg is the value of the route's only or first parameter.
func (c *Call) arg() string { return c.args[0] }

func (c *Call) clinicID() string { return c.token.ClinicID }

// practitionerID is who the caller is, where that is a practitioner: the token stands
// neither for staff nor for the clinic. API section: "Authentication" 4.
func (c *Call) practitionerID() string {
	if user := c.token.Grant.User; user.Type == model.UserPractitioner && !c.API.ClinicTokens {
		return user.ID
	}
	return ""
}

// require is for operations whose scope depends on what is asked for.
func (c *Call) require(scope string) error {
	c.Record.Scope.Required = append(c.Record.Scope.Required, scope)
	if c.Record.Scope.Granted = c.token.Has(scope); !c.Record.Scope.Granted {
		return missingScope(scope)
	}
	return nil
}

// Refuse answers with a problem.
func (c *Call) Refuse(w http.ResponseWriter, err error) {
	var p *problem
	if !errors.As(err, &p) {
		p = problemOf(http.StatusInternalServerError, err.Error())
	}
	c.Record.Status, c.Record.Refused = p.sentStatus(c.Reads), p.messages
	if p.header[0] != "" {
		w.Header()[p.header[0]] = []string{p.header[1]}
	}
	if p.html {
		writeProxyPage(w, c.Record.Status)
		return
	}
	c.write(w, reply{bare: true, value: p.body(c.Reads.ErrorShape, c.Record.Status)}, "")
}

func (c *Call) send(w http.ResponseWriter, rep reply) {
	c.Record.Status = max(rep.status, http.StatusOK)
	if c.Reads.AlwaysOK {
		c.Record.Status = http.StatusOK
	}
	c.write(w, rep, c.op.Key)
}

func (c *Call) write(w http.ResponseWriter, rep reply, key string) {
	writeJSON(w, c.Record.Status, rep, key, view.Rewriter(c.Reads, c.API.Compatible))
}

// Rescue keeps a mistake of ours from looking like a broken connection.
func (c *Call) Rescue(w http.ResponseWriter) {
	if cause := recover(); cause != nil {
		if cause == http.ErrAbortHandler {
			panic(cause)
		}
		c.Refuse(w, fmt.Errorf("dispensarytest: %v", cause))
	}
}
