package dispensarytest

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Paths below the server's origin. The API's base address and the browser's
// address differ, so that an integrator who confuses them finds out.
const (
	basePath = "/api"
	authPath = "/auth"
)

// call is one request on its way through the pipeline.
type call struct {
	srv    *Server
	r      *http.Request
	op     *operation
	args   args
	params params
	form   *form
	page   pageRequest
	token  *accessToken
	reads  *readings
	now    time.Time
	record Request // what the journal will know
	noted  bool    // it knows
	out    notedAnswer
}

// note writes the request into the journal, once.
func (c *call) note(status int) {
	if c.noted {
		return
	}
	c.noted = true
	c.record.Status = cmp.Or(c.record.Status, status)
	c.srv.journal.add(&c.record)
}

// notedAnswer is an answer whose request is in the journal before any of it is sent:
// who was answered finds what they asked for.
type notedAnswer struct {
	http.ResponseWriter
	call *call
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

// serve is the one pipeline of every request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == contractPath && r.Method == http.MethodGet {
		s.serveContract(w)
		return
	}
	if s.servePage(w, r) {
		return
	}
	c := &call{srv: s, r: r, reads: s.reads(), now: s.clock.Now()}
	c.record = Request{
		At: c.now, ID: s.requestIDs.next(), Method: r.Method,
		Path: r.URL.EscapedPath(), Query: r.URL.RawQuery,
	}
	w.Header()["X-Request-Id"] = []string{c.record.ID}
	c.out = notedAnswer{w, c}
	w = &c.out
	defer c.note(0) // where no answer is sent
	defer c.rescue(w)

	if err := c.route(); err != nil {
		c.refuse(w, err)
		return
	}
	if c.op.open && c.op.page == nil { // RFC 6749 5.1
		w.Header()["Cache-Control"], w.Header()["Pragma"] = []string{"no-store"}, []string{"no-cache"}
	}
	w, err := c.meetFaults(w)
	if err != nil {
		c.refuse(w, err)
		return
	}
	if c.op.page != nil {
		c.record.Status = c.op.page(c, w)
		return
	}
	rep, err := c.answer()
	if err != nil {
		c.refuse(w, err)
		return
	}
	c.send(w, rep)
}

// route checks the transport and finds the operation.
func (c *call) route() error {
	if c.srv.set.requireTLS && c.r.TLS == nil {
		// The API says that a call over HTTP is an error; the status is an
		// assumption.
		p := problemOf(http.StatusForbidden, "HTTPS is required")
		p.insecure = true
		return p
	}
	path := c.record.Path
	below, inBase := strings.CutPrefix(path, basePath)
	if !inBase {
		// Only the authorize page is served at the browser's address.
		if path != authPath+"/oauth/authorize" {
			return notFound()
		}
		below = "/oauth/authorize"
	}
	found := routes().find(below, &c.args)
	if found == nil {
		return notFound()
	}
	if c.op = found.ops[c.r.Method]; c.op == nil {
		for method, other := range found.ops {
			c.record.near(method + " " + other.route)
		}
		return notFound()
	}
	c.record.Operation, c.record.Route = c.op.id, c.op.route
	return nil
}

// answer takes an API request from its token to the handler's answer.
func (c *call) answer() (reply, error) {
	malformed := c.readQuery() // first: what is unknown shows in the journal of refused requests, too
	if !c.op.open {
		if err := c.authenticate(); err != nil {
			return reply{}, err
		}
	}
	if malformed != nil {
		return reply{}, c.unreadable(malformed)
	}
	if n := len(c.record.Unknown); n > 0 && c.reads.refuseUnknown && !c.op.open {
		return reply{}, invalid("Unknown parameter: " + c.record.Unknown[0].Name)
	}
	if err := c.parse(); err != nil {
		return reply{}, c.unreadable(err)
	}
	rep, err := c.handle()
	if p := (*problem)(nil); err == nil || errors.As(err, &p) && p.status == http.StatusUnprocessableEntity {
		c.record.Unread = c.form.unread()
	}
	if c.reads.refuseBeyond && rep.meta != nil && rep.meta.CurrentPage > max(rep.meta.TotalPages, 1) {
		return reply{}, notFound()
	}
	return rep, err
}

// unreadable is a request that could not be read, in the words of RFC 6749 where that
// is about tokens.
func (c *call) unreadable(err error) error {
	var p *problem
	if c.op.open && errors.As(err, &p) {
		return oauthProblem(p.status, "invalid_request", p.Error())
	}
	return err
}

// handle runs the handler under the world's lock.
func (c *call) handle() (reply, error) {
	if c.op.method == http.MethodGet {
		c.srv.mu.RLock()
		defer c.srv.mu.RUnlock()
	} else {
		c.srv.mu.Lock()
		defer c.srv.mu.Unlock()
	}
	return c.op.handle(c, c.srv.world)
}

func (c *call) readQuery() (err error) {
	c.params, err = parseParams(c.r.URL.RawQuery)
	c.record.Unknown = c.params.unknown(c.op.query)
	return err
}

// parse reads page and body.
func (c *call) parse() (err error) {
	if c.op.list {
		if c.page, err = c.params.page(c.reads); err != nil {
			return err
		}
	}
	if c.op.method != http.MethodGet {
		c.form, err = readForm(c.r, c.reads.refuseUnread)
	}
	return err
}

// arg is the value of the route's only or first parameter.
func (c *call) arg() string { return c.args[0] }

func (c *call) clinicID() string { return c.token.clinicID }

// practitionerID is who the caller is, where that is a practitioner: the token stands
// neither for staff nor for the clinic. API section: "Authentication" 4.
func (c *call) practitionerID() string {
	if user := c.token.grant.user; user.Type == UserPractitioner && !c.srv.set.clinicTokens {
		return user.ID
	}
	return ""
}

// require is for operations whose scope depends on what is asked for.
func (c *call) require(scope string) error {
	c.record.Scope.Required = append(c.record.Scope.Required, scope)
	if c.record.Scope.Granted = c.token.has(scope); !c.record.Scope.Granted {
		return missingScope(scope)
	}
	return nil
}

// refuse answers with a problem.
func (c *call) refuse(w http.ResponseWriter, err error) {
	var p *problem
	if !errors.As(err, &p) {
		p = problemOf(http.StatusInternalServerError, err.Error())
	}
	c.record.Status, c.record.Refused = c.reads.status(p), p.messages
	if p.header[0] != "" {
		w.Header()[p.header[0]] = []string{p.header[1]}
	}
	if p.html {
		writeProxyPage(w, c.record.Status)
		return
	}
	c.write(w, reply{bare: true, value: p.body(c.reads.errorShape, c.record.Status)}, "")
}

func (c *call) send(w http.ResponseWriter, rep reply) {
	c.record.Status = max(rep.status, http.StatusOK)
	if c.reads.alwaysOK {
		c.record.Status = http.StatusOK
	}
	c.write(w, rep, c.op.key)
}

func (c *call) write(w http.ResponseWriter, rep reply, key string) {
	writeJSON(w, c.record.Status, rep, key, c.srv.rewriter(c.reads))
}

// rescue keeps a mistake of ours from looking like a broken connection.
func (c *call) rescue(w http.ResponseWriter) {
	if cause := recover(); cause != nil {
		if cause == http.ErrAbortHandler {
			panic(cause)
		}
		c.refuse(w, fmt.Errorf("dispensarytest: %v", cause))
	}
}
