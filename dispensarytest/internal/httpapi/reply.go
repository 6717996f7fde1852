package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
)

// problem is a response that rejects a request. The shape of its body depends on the status.
// The API documents neither. Both are assumptions from the observations of integrators of
// similar services.
type problem struct {
	status   int
	messages []string
	code     string // the OAuth error code, on the token endpoint
	header   [2]string
	html     bool // a proxy's page, not the platform's JSON

	// Problems whose status depends on a behavior. See package behavior.
	injected   bool // by a fault, with the status of the fault
	wrongState bool
	noScope    bool
	insecure   bool
}

func (p *problem) Error() string { return strings.Join(p.messages, "; ") }

// body returns the body of the error in the chosen shape. status is the sent status.
func (p *problem) body(behaviors *rules.Set, status int) any {
	if p.code != "" {
		return map[string]string{"error": p.code, "error_description": p.Error()}
	}
	textOnly := p.status == http.StatusUnauthorized || p.status == http.StatusForbidden
	switch {
	case behaviors.Is(behavior.ErrorShapeCodedList):
		return p.coded(status)
	case !behaviors.Is(behavior.ErrorShapeText) && !behaviors.Is(behavior.ErrorShapeStatusAndText) && p.status == http.StatusUnprocessableEntity:
		return map[string][]string{"error": p.messages}
	case behaviors.Is(behavior.ErrorShapeText), !behaviors.Is(behavior.ErrorShapeStatusAndText) && textOnly:
		return map[string]string{"error": p.Error()}
	}
	return struct {
		Status int    `json:"status"`
		Error  string `json:"error"`
	}{status, p.Error()}
}

// coded returns a list of errors with codes.
func (p *problem) coded(status int) any {
	code := strings.ReplaceAll(strings.ToLower(http.StatusText(status)), " ", "_")
	return map[string]any{"errors": table.Map(p.messages, func(message string) map[string]string {
		return map[string]string{"code": code, "message": message}
	})}
}

func problemOf(status int, messages ...string) *problem {
	return &problem{status: status, messages: messages}
}

// invalid rejects a body or a parameter with 422.
func invalid(messages ...string) *problem {
	return problemOf(http.StatusUnprocessableEntity, messages...)
}

// wrongState rejects an action that the state of the object does not allow, with 422.
func wrongState(message string) *problem {
	p := invalid(message)
	p.wrongState = true
	return p
}

// notFound rejects an unknown id or path with 404.
func notFound() *problem { return problemOf(http.StatusNotFound, "Not Found") }

func badRequest(message string) *problem { return problemOf(http.StatusBadRequest, message) }

// challenge begins the header that describes the problem of a bearer token. RFC 6750 3.
const challenge = `Bearer realm="dispensary"`

// noToken rejects a request without a token with 401. Its challenge contains no error.
func noToken() *problem {
	p := problemOf(http.StatusUnauthorized, "The access token is missing")
	p.header = [2]string{"Www-Authenticate", challenge}
	return p
}

// unauthorized rejects a token with 401.
func unauthorized(message string) *problem {
	p := problemOf(http.StatusUnauthorized, message)
	p.header = [2]string{"Www-Authenticate", challenge + `, error="invalid_token"`}
	return p
}

// missingScope rejects a token that lacks a scope with 403.
func missingScope(scope string) *problem {
	p := problemOf(http.StatusForbidden, "Access to this resource requires the scope "+scope)
	p.noScope = true
	p.header = [2]string{"Www-Authenticate", challenge + `, error="insufficient_scope", scope="` + scope + `"`}
	return p
}

// oauthProblem rejects a call of the token endpoint.
func oauthProblem(status int, code, description string) *problem {
	return &problem{status: status, code: code, messages: []string{description}}
}

// sentStatus returns the status under the chosen behaviors.
func (p *problem) sentStatus(r *rules.Set) int {
	switch {
	case p.code != "", p.injected:
		return p.status
	case p.wrongState && r.Is(behavior.WrongStateStatus409):
		return http.StatusConflict
	case !p.wrongState && p.status == http.StatusUnprocessableEntity && r.Is(behavior.ValidationStatus400):
		return http.StatusBadRequest
	case p.noScope && r.Is(behavior.MissingScopeStatus404):
		return http.StatusNotFound
	case p.insecure && r.Is(behavior.PlainHTTPStatus400):
		return http.StatusBadRequest
	}
	return p.status
}

// reply is the result of a handler.
type reply struct {
	status int // 0 means 200
	bare   bool
	value  any
	meta   *pageMeta
}

// ok returns a value under the operation's key.
func ok(value any) reply { return reply{value: value} }

// created returns a value with 201. The success codes of the API are an assumption.
func created(value any) reply { return reply{status: http.StatusCreated, value: value} }

// bare returns a value without a key.
func bare(value any) reply { return reply{bare: true, value: value} }

// writeJSON writes a response. It wraps the value under a key unless the reply is bare, and
// then applies rewrite if it is not nil.
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
	_, _ = w.Write(body) // a client that has left is not an error of the platform
}

// WriteProblem responds with a problem outside the pipeline.
func WriteProblem(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, bare(problemOf(status, message).body(&rules.Set{}, status)), "", nil)
}
