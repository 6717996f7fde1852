package dispensarytest

import (
	"net/http"
	"strings"
)

// problem is an answer that refuses a request. Which of the shapes the body has
// follows from the status. The API documents neither; both are an assumption
// from what integrators of services of this kind meet.
type problem struct {
	status   int
	messages []string
	code     string // the OAuth error code, on the token endpoint
	header   [2]string
}

func (p *problem) Error() string { return strings.Join(p.messages, "; ") }

func (p *problem) body() any {
	switch {
	case p.code != "":
		return struct {
			Error       string `json:"error"`
			Description string `json:"error_description"`
		}{p.code, p.Error()}
	case p.status == http.StatusUnprocessableEntity:
		return struct {
			Error []string `json:"error"`
		}{p.messages}
	case p.status == http.StatusUnauthorized, p.status == http.StatusForbidden:
		return struct {
			Error string `json:"error"`
		}{p.Error()}
	default:
		return struct {
			Status int    `json:"status"`
			Error  string `json:"error"`
		}{p.status, p.Error()}
	}
}

func problemOf(status int, messages ...string) *problem {
	return &problem{status: status, messages: messages}
}

// invalid refuses a body or a parameter: 422.
func invalid(messages ...string) *problem {
	return problemOf(http.StatusUnprocessableEntity, messages...)
}

// notFound refuses an id or a path nobody knows: 404.
func notFound() *problem { return problemOf(http.StatusNotFound, "Not Found") }

func badRequest(message string) *problem { return problemOf(http.StatusBadRequest, message) }

// unauthorized refuses a token: 401.
func unauthorized(message string) *problem {
	p := problemOf(http.StatusUnauthorized, message)
	p.header = [2]string{"Www-Authenticate", `Bearer realm="dispensary", error="invalid_token"`}
	return p
}

// missingScope refuses a token that lacks a scope: 403.
func missingScope(scope string) *problem {
	return problemOf(http.StatusForbidden, "Access to this resource requires the scope "+scope)
}

// oauthProblem refuses a call to the token endpoint.
func oauthProblem(status int, code, description string) *problem {
	return &problem{status: status, code: code, messages: []string{description}}
}
