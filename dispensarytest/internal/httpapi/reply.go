package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
)

// problem is an answer that refuses a request. Which of the shapes the body has
// follows from the status. The API documents neither; both are an assumption
// from what integrators of services of this kind meet.
type problem struct {
	status   int
	messages []string
	code     string // the OAuth error code, on the token endpoint
	header   [2]string
	html     bool // a proxy's page in place of the platform's JSON

	// What a behavior can give another status to; see package behavior.
	injected   bool // by a fault: as it was asked for
	wrongState bool
	noScope    bool
	insecure   bool
}

func (p *problem) Error() string { return strings.Join(p.messages, "; ") }

// body is the error's body, in one of the shapes, with the status that is sent.
func (p *problem) body(shape rules.ErrorShape, status int) any {
	if p.code != "" {
		return struct {
			Error       string `json:"error"`
			Description string `json:"error_description"`
		}{p.code, p.Error()}
	}
	if shape == rules.ShapeByStatus {
		shape = rules.ShapeStatus
		switch p.status {
		case http.StatusUnprocessableEntity:
			return struct {
				Error []string `json:"error"`
			}{p.messages}
		case http.StatusUnauthorized, http.StatusForbidden:
			shape = rules.ShapeText
		}
	}
	switch shape {
	case rules.ShapeText:
		return struct {
			Error string `json:"error"`
		}{p.Error()}
	case rules.ShapeCoded:
		return p.coded(status)
	default:
		return struct {
			Status int    `json:"status"`
			Error  string `json:"error"`
		}{status, p.Error()}
	}
}

// coded is a list of errors that each have a code.
func (p *problem) coded(status int) any {
	type entry struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	code := strings.ReplaceAll(strings.ToLower(http.StatusText(status)), " ", "_")
	var body struct {
		Errors []entry `json:"errors"`
	}
	for _, message := range p.messages {
		body.Errors = append(body.Errors, entry{code, message})
	}
	return body
}

func problemOf(status int, messages ...string) *problem {
	return &problem{status: status, messages: messages}
}

// invalid refuses a body or a parameter: 422.
func invalid(messages ...string) *problem {
	return problemOf(http.StatusUnprocessableEntity, messages...)
}

// wrongState refuses what the object's state does not allow: 422.
func wrongState(message string) *problem {
	p := invalid(message)
	p.wrongState = true
	return p
}

// notFound refuses an unknown id or path: 404.
func notFound() *problem { return problemOf(http.StatusNotFound, "Not Found") }

func badRequest(message string) *problem { return problemOf(http.StatusBadRequest, message) }

// challenge is the header that says what a bearer token lacks. RFC 6750 3.
const challenge = `Bearer realm="dispensary"`

// noToken refuses a request without a token: 401. Such a challenge names no error.
func noToken() *problem {
	p := problemOf(http.StatusUnauthorized, "The access token is missing")
	p.header = [2]string{"Www-Authenticate", challenge}
	return p
}

// unauthorized refuses a token: 401.
func unauthorized(message string) *problem {
	p := problemOf(http.StatusUnauthorized, message)
	p.header = [2]string{"Www-Authenticate", challenge + `, error="invalid_token"`}
	return p
}

// missingScope refuses a token that lacks a scope: 403.
func missingScope(scope string) *problem {
	p := problemOf(http.StatusForbidden, "Access to this resource requires the scope "+scope)
	p.noScope = true
	p.header = [2]string{"Www-Authenticate", challenge + `, error="insufficient_scope", scope="` + scope + `"`}
	return p
}

// oauthProblem refuses a call to the token endpoint.
func oauthProblem(status int, code, description string) *problem {
	return &problem{status: status, code: code, messages: []string{description}}
}

// sentStatus is the status under some behaviors.
func (p *problem) sentStatus(r *rules.Set) int {
	switch {
	case p.code != "", p.injected:
		return p.status
	case p.wrongState:
		return r.WrongState
	case p.status == http.StatusUnprocessableEntity:
		return r.Validation
	case p.noScope:
		return r.MissingScope
	case p.insecure:
		return r.PlainHTTP
	}
	return p.status
}

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

// writeJSON writes an answer, wrapped under a key unless it is bare, and then
// rewritten where a reading or a mode asks for it.
func writeJSON(w http.ResponseWriter, status int, rep reply, key string, rewrite func([]byte) []byte) {
	body := []byte(view.Encode(rep.value))
	if !rep.bare && key != "" {
		body = slices.Concat([]byte(`{"`+key+`":`), body)
		if rep.meta != nil {
			body = append(append(body, `,"meta":`...), view.Encode(rep.meta)...)
		}
		body = append(body, '}')
	}
	if rewrite != nil {
		body = rewrite(body)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that went away is no failure of ours
}

// WriteProblem answers with a problem before there is a call.
func WriteProblem(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, bare(problemOf(status, message).body(rules.ShapeByStatus, status)), "", nil)
}
