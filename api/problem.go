package api

import (
	"context"
	"errors"
	"fmt"
	"github.com/dispensary-go/dispensary/internal/apikit/hidden"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Problem describes an error for the user of your application. [ProblemOf] returns it.
//
// Its JSON form is a problem document of RFC 9457, for the content type
// application/problem+json. It prints only its status and title. The messages of Fields and
// Other may repeat input, so do not log them.
type Problem struct {
	// Status is the HTTP status for the response of your own endpoint.
	Status int `json:"status"`

	// Title is a sentence or two for the user. It contains no ID, no input and no text from the
	// platform.
	Title string `json:"title"`

	// Fields contains the messages about the input by the JSON name of the request's field:
	// "last_name", "metadata.id", "recommendations[0].variant_id". Show them beside the fields.
	// See [Problem.For]. It is empty if the error is not about the input.
	Fields map[string][]string `json:"fields,omitempty"`

	// Other contains the messages about the input as a whole, or about a field that your form
	// lacks. Show them above the form.
	Other []string `json:"other,omitempty"`

	// Reauthorize reports whether the user must connect a dispensary account, for the first
	// time or again. Show a link to the connect page.
	Reauthorize bool `json:"reauthorize,omitempty"`

	// RetryAfter is the wait that the platform requested before the next request, for a
	// Retry-After header. It is 0 if the platform requested none.
	RetryAfter time.Duration `json:"-"`
}

// The titles. Users read them, so they avoid the terms of the API.
const (
	textInvalid           = "The dispensary does not accept this. Please check your entries."
	textReauthorize       = "Please connect your dispensary account."
	textForbidden         = "Your dispensary account does not allow this."
	textNotFound          = "The dispensary does not have this record."
	textAmbiguous         = "The dispensary has several records for this. Please contact support."
	textConflict          = "The dispensary stored this record differently. Please contact support."
	textBusy              = "The dispensary is busy. Please try again later."
	textUnconfirmed       = "The dispensary did not confirm this. Please check whether it was done before you try again."
	textUnconfirmedEnsure = "The dispensary did not confirm this. Please try again in a few minutes."
	textFailed            = "The dispensary does not work as expected. Please try again later."
	textUnreachable       = "The dispensary cannot be reached. Please try again later."
	textTimeout           = "The dispensary did not respond in time. Please try again."
	textUnsent            = "This is not possible right now. Please try again later."
	textCanceled          = "This was canceled. Please try again."
	textSetup             = "The connection to the dispensary is not set up correctly. Please contact support."
	textAccountChanged    = "You have connected another dispensary account. Please start again."
	textUnknown           = "Something went wrong. If it happens again, please contact support."
)

// ProblemOf returns the problem of an error from any package of this module, or nil for nil.
// The first matching row decides:
//
//	error                                          status  user
//	an EnsureError with a Field                    422     corrects the field
//	an EnsureError with EnsureReasonUnknown        502     tries again in a few minutes
//	any other EnsureError                          409     contacts support
//	ErrMaybeApplied                                502     checks before trying again
//	treatmentplans.UnavailableError                422     chooses other products
//	oauth.ErrCanceled                              409     connects the account
//	oauth.ErrState, ErrNoCode, ErrCodeRejected      400     connects the account
//	oauth.CallbackError, tokens.ErrUndecided       502     tries again later
//	oauth.ConfigError                              500     contacts support
//	tokens.ErrOwnerRejected                         403     connects another account
//	tokens.StoreError, catalogsync.ErrNotLoaded    503     tries again later
//	an error with a method Problem() *Problem      its own problem, unless it is nil
//	ErrAccountChanged                              409     starts again
//	ErrReauthorize                                 409     connects the account
//	ErrWrongEnvironment, ErrInsecure               500     contacts support
//	ErrForbidden, ScopeError                       403     cannot do this
//	ErrNotFound                                    404     chooses another record
//	ErrValidation                                  422     corrects the fields
//	ErrRateLimited                                 503     tries again after RetryAfter
//	ErrUnauthorized, ErrServer                     502     tries again later
//	a canceled context                             503     tries again
//	a timeout                                      504     tries again
//	a call that failed before its first attempt    503     tries again later
//	a call without a response                      502     tries again later
//	ErrUntrusted, ErrBadResponse, other responses  502     tries again later
//	ArgumentError, ArgumentErrors of input         422     corrects the fields
//	any other error                                500     contacts support
//
// The response of an [Error] decides its row. Its cause may be an error of the token endpoint,
// which is never about the input or a record. An argument with a Go name, such as "Limit", is
// a programming mistake and counts as any other error. ErrReauthorize has status 409 because
// many front ends reserve 401 and 403 for their own session. Reauthorize is true in each row
// in which the user connects an account.
//
// The messages of a field are the same whether this module or the platform rejects the input.
// They are sentences in the order in which they were found. A required field is blank if it
// contains only white space. Assumption: the statuses of [ErrValidation] are about the input.
// API section: "Errors".
func ProblemOf(err error) *Problem {
	if err == nil {
		return nil
	}
	var ensure *EnsureError
	var call *Error
	var own interface {
		error
		Problem() *Problem
	}
	var scope *ScopeError
	isCall := errors.As(err, &call) && call != nil
	switch {
	case errors.As(err, &ensure) && ensure != nil:
		return ensure.problem()
	case isCall && call.Outcome == OutcomeMaybeApplied, !isCall && errors.Is(err, ErrMaybeApplied):
		return newProblem(http.StatusBadGateway, textUnconfirmed)
	case errors.As(err, &own) && own.Problem() != nil:
		return own.Problem()
	case errors.Is(err, ErrAccountChanged):
		return newProblem(http.StatusConflict, textAccountChanged)
	case errors.Is(err, ErrReauthorize):
		p := newProblem(http.StatusConflict, textReauthorize)
		p.Reauthorize = true
		return p
	case errors.Is(err, ErrWrongEnvironment), errors.Is(err, ErrInsecure):
		return newProblem(http.StatusInternalServerError, textSetup)
	case errors.As(err, &scope) && scope != nil:
		return newProblem(http.StatusForbidden, textForbidden)
	case isCall:
		return call.problem()
	}
	return problemOfOther(err)
}

// problem describes the response of a call, or the reason that there is none.
func (e *Error) problem() *Problem {
	cause := e.Unwrap()
	p := newProblem(http.StatusBadGateway, textFailed)
	var inner *Error
	switch sentinel := e.statusSentinel(); {
	case sentinel == ErrRateLimited, e.StatusCode == 0 && errors.Is(cause, ErrRateLimited):
		p = newProblem(http.StatusServiceUnavailable, textBusy)
	case e.Code != "", sentinel == ErrUnauthorized, sentinel == ErrServer: // only OAuth responses have codes
	case sentinel != errNone:
		return problemOfSentinel(sentinel, e.details().Messages)
	case e.StatusCode == http.StatusOK && errors.Is(cause, ErrNotFound): // a list without the record
		return problemOfSentinel(ErrNotFound, nil)
	case errors.Is(cause, context.Canceled):
		p = newProblem(http.StatusServiceUnavailable, textCanceled)
	case e.Timeout():
		p = newProblem(http.StatusGatewayTimeout, textTimeout)
	case errors.As(cause, &inner) && inner != nil: // from the token endpoint, so never about the input or a record
	case e.StatusCode == 0 && e.Attempts == 0:
		p = newProblem(http.StatusServiceUnavailable, textUnsent)
	case e.StatusCode == 0:
		p.Title = textUnreachable
	}
	if p.RetryAfter = e.RetryAfter; p.RetryAfter == 0 && errors.As(cause, &inner) && inner != nil {
		p.RetryAfter = inner.RetryAfter
	}
	return p
}

// problemOfOther describes an error that does not come from a call.
func problemOfOther(err error) *Problem {
	var arguments ArgumentErrors
	var argument *ArgumentError
	switch {
	case errors.As(err, &arguments):
		return arguments.problem()
	case errors.As(err, &argument) && argument != nil:
		return ArgumentErrors{argument}.problem()
	}
	for _, sentinel := range []error{
		ErrForbidden, ErrNotFound, ErrValidation, ErrRateLimited, context.Canceled, context.DeadlineExceeded,
		ErrUnauthorized, ErrServer, ErrUntrusted, ErrBadResponse,
	} {
		if errors.Is(err, sentinel) {
			return problemOfSentinel(sentinel, nil)
		}
	}
	return newProblem(http.StatusInternalServerError, textUnknown)
}

func problemOfSentinel(sentinel error, messages []hidden.Message) *Problem {
	switch sentinel {
	case ErrForbidden:
		return newProblem(http.StatusForbidden, textForbidden)
	case ErrNotFound:
		return newProblem(http.StatusNotFound, textNotFound)
	case ErrValidation:
		return invalid(messages)
	case ErrRateLimited:
		return newProblem(http.StatusServiceUnavailable, textBusy)
	case context.Canceled:
		return newProblem(http.StatusServiceUnavailable, textCanceled)
	case context.DeadlineExceeded:
		return newProblem(http.StatusGatewayTimeout, textTimeout)
	}
	return newProblem(http.StatusBadGateway, textFailed)
}

func newProblem(status int, title string) *Problem { return &Problem{Status: status, Title: title} }

// invalid returns the problem of rejected input, with messages by field.
func invalid(messages []hidden.Message) *Problem {
	p := newProblem(http.StatusUnprocessableEntity, textInvalid)
	for _, m := range messages {
		if m.Field == "" {
			p.Other = append(p.Other, m.Text)
			continue
		}
		if p.Fields == nil {
			p.Fields = map[string][]string{}
		}
		p.Fields[m.Field] = append(p.Fields[m.Field], m.Text)
	}
	return p
}

// For returns the problem for a form with the given fields, named as in the request. It moves
// the messages about any other field to Other, sorted by field name. It returns nil if p is
// nil.
func (p *Problem) For(fields ...string) *Problem {
	if p == nil {
		return nil
	}
	form := *p
	form.Fields, form.Other = map[string][]string{}, slices.Clone(p.Other)
	for _, field := range slices.Sorted(maps.Keys(p.Fields)) {
		if slices.Contains(fields, field) {
			form.Fields[field] = p.Fields[field]
		} else {
			form.Other = append(form.Other, p.Fields[field]...)
		}
	}
	return &form
}

// Format prints the status and the title for every verb.
func (p Problem) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, strconv.Itoa(p.Status)+" "+p.Title)
}

// LogValue returns the status and the title.
func (p Problem) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("status", p.Status), slog.String("title", p.Title))
}
