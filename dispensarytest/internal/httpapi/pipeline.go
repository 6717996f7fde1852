// Package httpapi answers the calls of the API: the pipeline that every request takes,
// the router, parameters and bodies, the handlers by resource, the token endpoints and the
// authorize page. Its collaborators are the fields of [API].
//
// A request takes this way: [API.ServeHTTP] finds the operation, meets the faults, checks
// token, clinic key and scope, reads page, query and body, runs the handler under the
// store's lock, and writes the answer; the journal has it before its first byte is sent.
package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Paths below the server's origin. The API's base address and the browser's
// address differ, so that an integrator who confuses them finds out.
const (
	BasePath = "/api"
	AuthPath = "/auth"
)

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

	found, err := c.route()
	if err != nil {
		c.Refuse(w, err)
		return
	}
	if c.op.Open && found.page == nil { // RFC 6749 5.1
		w.Header()["Cache-Control"], w.Header()["Pragma"] = []string{"no-store"}, []string{"no-cache"}
	}
	w, err = c.meetFaults(w)
	if err != nil {
		c.Refuse(w, err)
		return
	}
	if found.page != nil {
		c.Record.Status = found.page(c, w)
		return
	}
	rep, err := c.answer(found.handle)
	if err != nil {
		c.Refuse(w, err)
		return
	}
	c.send(w, rep)
}

// route checks the transport and finds the operation.
func (c *Call) route() (*endpoint, error) {
	if c.API.RequireTLS && c.R.TLS == nil {
		// The API says that a call over HTTP is an error; the status is an
		// assumption.
		p := problemOf(http.StatusForbidden, "HTTPS is required")
		p.insecure = true
		return nil, p
	}
	path := c.Record.Path
	below, inBase := strings.CutPrefix(path, BasePath)
	if !inBase {
		// Only the authorize page is served at the browser's address.
		if path != AuthPath+"/oauth/authorize" {
			return nil, notFound()
		}
		below = "/oauth/authorize"
	}
	at := Routes().Find(below, &c.args)
	if at == nil {
		return nil, notFound()
	}
	found := at.Ops[c.R.Method]
	if found == nil {
		for method, other := range at.Ops {
			c.Record.Near = append(c.Record.Near, method+" "+other.Route)
		}
		slices.Sort(c.Record.Near)
		return nil, notFound()
	}
	c.op = &found.Operation
	c.Record.Operation, c.Record.Route = c.op.ID, c.op.Route
	return found, nil
}

// answer takes an API request from its token to the handler's answer.
func (c *Call) answer(with handler) (reply, error) {
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
	rep, err := c.handle(with)
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
func (c *Call) handle(with handler) (reply, error) {
	if c.op.Method == http.MethodGet {
		c.API.Store.RLock()
		defer c.API.Store.RUnlock()
	} else {
		c.API.Store.Lock()
		defer c.API.Store.Unlock()
	}
	return with(c, c.API.Store.World)
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
