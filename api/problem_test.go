package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/internal/apikit/hidden"
)

// canaryText is part of every error text here. No title may contain it.
const canaryText = "c4n4ry"

func rejected(status int, messages ...hidden.Message) *api.Error {
	return apikit.NewError(api.Error{Operation: "patients.create", StatusCode: status, Outcome: api.OutcomeNotApplied, RequestID: canaryText}, nil, []byte(canaryText), messages)
}

// failed returns the error of a call without a response.
func failed(attempts int, cause error) *api.Error {
	return apikit.NewError(api.Error{Operation: "patients.get", Attempts: attempts}, cause, nil, nil)
}

func blank(field string) *api.ArgumentError {
	return &api.ArgumentError{Operation: "patients.create", Field: field, Reason: "can't be blank"}
}

// described is an error of another package that has its own Problem.
type described struct{ error }

func (described) Problem() *api.Problem { return &api.Problem{Status: 422, Title: "Its own."} }

// undescribed is an error with a nil Problem.
type undescribed struct{ error }

func (undescribed) Problem() *api.Problem { return nil }

const (
	invalid     = "The dispensary does not accept this. Please check your entries."
	connect     = "Please connect your dispensary account."
	forbidden   = "Your dispensary account does not allow this."
	notFound    = "The dispensary does not have this record."
	busy        = "The dispensary is busy. Please try again later."
	unconfirmed = "The dispensary did not confirm this. Please check whether it was done before you try again."
	outOfOrder  = "The dispensary does not work as expected. Please try again later."
	unreachable = "The dispensary cannot be reached. Please try again later."
	late        = "The dispensary did not respond in time. Please try again."
	unsent      = "This is not possible right now. Please try again later."
	canceled    = "This was canceled. Please try again."
	setup       = "The connection to the dispensary is not set up correctly. Please contact support."
	unknown     = "Something went wrong. If it happens again, please contact support."
)

func TestProblemOfEachError(t *testing.T) {
	t.Parallel()
	text := hidden.Message{Text: canaryText}
	untrusted := func(status int, outcome api.Outcome) *api.Error {
		return apikit.NewError(api.Error{StatusCode: status, Outcome: outcome, Untrusted: true}, nil, nil, []hidden.Message{text})
	}
	lost := apikit.NewError(api.Error{Outcome: api.OutcomeMaybeApplied, Attempts: 1, RetryAfter: time.Minute}, context.DeadlineExceeded, nil, nil)
	wait := func(e *api.Error, d time.Duration) *api.Error { e.RetryAfter = d; return e }
	token := func(status int, code string) *api.Error {
		return apikit.NewError(api.Error{Operation: "oauth.refresh", StatusCode: status, Code: code}, nil, nil, []hidden.Message{text})
	}
	for name, test := range map[string]struct {
		err    error
		status int
		title  string
	}{
		"ensure taken":              {&api.EnsureError{Reason: api.EnsureReasonTaken, Field: "email", IDs: []string{canaryText}}, 422, invalid},
		"ensure contradicted":       {&api.EnsureError{Reason: api.EnsureReasonContradicted, Field: "email"}, 422, invalid},
		"ensure unknown":            {&api.EnsureError{Reason: api.EnsureReasonUnknown, Err: lost}, 502, "The dispensary did not confirm this. Please try again in a few minutes."},
		"ensure ambiguous":          {&api.EnsureError{Reason: api.EnsureReasonAmbiguous, IDs: []string{canaryText}}, 409, "The dispensary has several records for this. Please contact support."},
		"ensure altered":            {&api.EnsureError{Reason: api.EnsureReasonAltered, IDs: []string{canaryText}}, 409, "The dispensary stored this record differently. Please contact support."},
		"lost response":             {lost, 502, unconfirmed},
		"server error of a write":   {&api.Error{StatusCode: 500, Outcome: api.OutcomeMaybeApplied}, 502, unconfirmed},
		"untrusted write":           {untrusted(422, api.OutcomeMaybeApplied), 502, unconfirmed},
		"undecodable write":         {apikit.NewError(api.Error{StatusCode: 201, Outcome: api.OutcomeMaybeApplied}, api.ErrBadResponse, nil, nil), 502, unconfirmed},
		"rejected untrusted write":  {apikit.NewError(api.Error{StatusCode: 401, Outcome: api.OutcomeMaybeApplied, Untrusted: true}, api.ErrReauthorize, nil, nil), 502, unconfirmed},
		"bare maybe applied":        {fmt.Errorf(canaryText+": %w", api.ErrMaybeApplied), 502, unconfirmed},
		"described":                 {described{errors.New(canaryText)}, 422, "Its own."},
		"described cause":           {failed(0, fmt.Errorf(canaryText+": %w", described{errors.New(canaryText)})), 422, "Its own."},
		"undescribed":               {undescribed{errors.New(canaryText)}, 500, unknown},
		"reauthorize":               {fmt.Errorf(canaryText+": %w", api.ErrReauthorize), 409, connect},
		"reauthorize before a call": {failed(0, fmt.Errorf(canaryText+": %w: %w", api.ErrReauthorize, token(400, "invalid_grant"))), 409, connect},
		"reauthorize after a 401":   {apikit.NewError(api.Error{StatusCode: 401, Attempts: 1, Outcome: api.OutcomeNotApplied}, api.ErrReauthorize, nil, nil), 409, connect},
		"wrong environment":         {failed(0, fmt.Errorf(canaryText+": %w", api.ErrWrongEnvironment)), 500, setup},
		"insecure":                  {&api.ArgumentError{Field: "Site.BaseURL", Reason: "is plain HTTP", Err: api.ErrInsecure}, 500, setup},
		"forbidden":                 {rejected(403, text), 403, forbidden},
		"bare forbidden":            {api.ErrForbidden, 403, forbidden},
		"missing scope":             {failed(0, &api.ScopeError{Scope: canaryText}), 403, forbidden},
		"assumed scope":             {apikit.NewError(api.Error{StatusCode: 403, Outcome: api.OutcomeNotApplied}, &api.ScopeError{Scope: "clinic", Assumed: true}, nil, nil), 403, forbidden},
		"bare scope":                {&api.ScopeError{Scope: canaryText}, 403, forbidden},
		"untrusted 403":             {untrusted(403, api.OutcomeNone), 502, outOfOrder},
		"not found":                 {rejected(404, text), 404, notFound},
		"bare not found":            {fmt.Errorf(canaryText+": %w", api.ErrNotFound), 404, notFound},
		"untrusted 404":             {untrusted(404, api.OutcomeNone), 502, outOfOrder},
		"400":                       {rejected(400), 422, invalid},
		"409":                       {rejected(409, text), 422, invalid},
		"422":                       {fmt.Errorf("saving: %w", rejected(422, text)), 422, invalid},
		"bare validation":           {api.ErrValidation, 422, invalid},
		"untrusted 422 of a read":   {untrusted(422, api.OutcomeNone), 502, outOfOrder},
		"rate limited":              {wait(rejected(429, text), time.Minute), 503, busy},
		"untrusted rate limit":      {untrusted(429, api.OutcomeNone), 503, busy},
		"rate limited before":       {wait(failed(0, fmt.Errorf(canaryText+": %w", api.ErrRateLimited)), time.Minute), 503, busy},
		"rate limited refresh":      {failed(0, wait(token(429, ""), time.Minute)), 503, busy},
		"bare rate limited":         {api.ErrRateLimited, 503, busy},
		"canceled":                  {failed(1, context.Canceled), 503, canceled},
		"canceled while reading":    {apikit.NewError(api.Error{StatusCode: 200, Attempts: 1}, context.Canceled, nil, nil), 503, canceled},
		"bare canceled":             {context.Canceled, 503, canceled},
		"timeout":                   {failed(1, context.DeadlineExceeded), 504, late},
		"timeout of a refresh":      {failed(0, failed(1, context.DeadlineExceeded)), 504, late},
		"bare timeout":              {context.DeadlineExceeded, 504, late},
		"no response":               {failed(3, errors.New(canaryText)), 502, unreachable},
		"no attempt":                {failed(0, errors.New(canaryText)), 503, unsent},
		"argument of a source":      {failed(0, blank("email")), 503, unsent},
		"unauthorized":              {rejected(401, text), 502, outOfOrder},
		"bare unauthorized":         {api.ErrUnauthorized, 502, outOfOrder},
		"server error":              {wait(rejected(503, text), time.Minute), 502, outOfOrder},
		"bare server error":         {api.ErrServer, 502, outOfOrder},
		"undecodable":               {apikit.NewError(api.Error{StatusCode: 200}, api.ErrBadResponse, nil, nil), 502, outOfOrder},
		"bare undecodable":          {fmt.Errorf(canaryText+": %w", api.ErrBadResponse), 502, outOfOrder},
		"bare untrusted":            {api.ErrUntrusted, 502, outOfOrder},
		"incomplete list":           {apikit.NewError(api.Error{StatusCode: 200}, &api.IncompleteListError{Read: 1, Total: 2}, nil, nil), 502, outOfOrder},
		"other response":            {rejected(418, text), 502, outOfOrder},
		"OAuth code":                {token(400, "invalid_grant"), 502, outOfOrder},
		"OAuth rejection":           {failed(0, token(400, "invalid_request")), 502, outOfOrder},
		"token endpoint not found":  {failed(0, rejected(404, text)), 502, outOfOrder},
		"token endpoint invalid":    {failed(0, rejected(422, text)), 502, outOfOrder},
		"argument":                  {blank("email"), 422, invalid},
		"arguments":                 {fmt.Errorf("saving: %w", api.ArgumentErrors{blank("email"), blank("last_name")}), 422, invalid},
		"argument of Go":            {&api.ArgumentError{Field: "Limit", Reason: canaryText}, 500, unknown},
		"element of a record":       {&api.ArgumentError{Field: "Patient.birthDate", Record: true, Reason: "can't be blank"}, 422, invalid},
		"arguments of both":         {api.ArgumentErrors{blank("email"), {Field: "ClinicKey", Reason: canaryText}}, 500, unknown},
		"not sent":                  {api.ErrNotSent, 500, unknown},
		"other":                     {errors.New(canaryText), 500, unknown},
	} {
		p := api.ProblemOf(test.err)
		require.NotNil(t, p, name)
		assert.Equal(t, test.status, p.Status, name)
		assert.Equal(t, test.title, p.Title, name)
		assert.NotContains(t, p.Title, canaryText, name)
		assert.Equal(t, test.title == connect, p.Reauthorize, name)
		assert.Equal(t, test.title == unknown || test.title == setup, p.Status == 500, name)
		if p.Status != 422 {
			assert.Empty(t, p.Fields, name)
			assert.Empty(t, p.Other, name)
		}
	}
	assert.Nil(t, api.ProblemOf(nil))
}

func TestProblemCopiesRetryAfter(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]time.Duration{429: time.Minute, 503: time.Minute, 422: 0, 404: 0} {
		e := rejected(status)
		e.RetryAfter = time.Minute
		assert.Equal(t, want, api.ProblemOf(e).RetryAfter, status)
		if status >= 429 {
			assert.Equal(t, want, api.ProblemOf(failed(0, e)).RetryAfter, "%d of the token endpoint", status)
		}
	}
	lost := &api.Error{StatusCode: 503, Outcome: api.OutcomeMaybeApplied, RetryAfter: time.Minute}
	assert.Zero(t, api.ProblemOf(lost).RetryAfter, "the user must check before trying again")
}

func TestProblemGroupsMessagesByField(t *testing.T) {
	t.Parallel()
	email, name := hidden.Message{Field: "email", Text: "Email is invalid"}, hidden.Message{Field: "last_name", Text: "Last name can't be blank"}
	type fields = map[string][]string
	both := fields{"email": {"Email can't be blank"}, "last_name": {"Last name can't be blank"}}
	for name, test := range map[string]struct {
		err    error
		fields fields
		other  []string
	}{
		"platform":         {rejected(422, email, name, hidden.Message{Field: "email", Text: "Email is too long"}, hidden.Message{Text: "Bad"}), fields{"email": {"Email is invalid", "Email is too long"}, "last_name": {"Last name can't be blank"}}, []string{"Bad"}},
		"another status":   {rejected(400, email), fields{"email": {"Email is invalid"}}, nil},
		"wrong state":      {rejected(409, hidden.Message{Text: "Treatment plan is not active"}), nil, []string{"Treatment plan is not active"}},
		"without messages": {rejected(422), nil, nil},
		"argument":         {blank("practitioner_id"), fields{"practitioner_id": {"Practitioner can't be blank"}}, nil},
		"arguments":        {api.ArgumentErrors{blank("email"), blank("last_name")}, both, nil},
		"taken":            {&api.EnsureError{Operation: "patients.create", Reason: api.EnsureReasonTaken, Field: "email"}, fields{"email": {"Email has already been taken"}}, nil},
	} {
		p := api.ProblemOf(test.err)
		assert.Equal(t, test.fields, p.Fields, name)
		assert.Equal(t, test.other, p.Other, name)
	}
}

func TestProblemSharesNoMemory(t *testing.T) {
	t.Parallel()
	err := rejected(422, hidden.Message{Field: "email", Text: "Email is invalid"}, hidden.Message{Text: "Bad"})
	p := api.ProblemOf(err)
	form := p.For("email")
	p.Fields["email"][0], p.Other[0] = "changed", "changed"
	assert.Equal(t, []string{"Email is invalid"}, api.ProblemOf(err).Fields["email"])
	assert.Equal(t, []string{"Bad"}, api.ProblemOf(err).Other)
	assert.Equal(t, []string{"Bad"}, form.Other)
	assert.Equal(t, []string{"Email is invalid", "Bad"}, err.Messages())
}

func TestProblemForMovesOtherFields(t *testing.T) {
	t.Parallel()
	p := api.ProblemOf(rejected(422,
		hidden.Message{Field: "metadata.id", Text: "Metadata.id is too long"}, hidden.Message{Text: "Bad"},
		hidden.Message{Field: "email", Text: "Email is invalid"}, hidden.Message{Field: "discount", Text: "Discount is too high"},
		hidden.Message{Field: "discount", Text: "Discount is odd"},
	))
	form := p.For("email", "last_name")
	assert.Equal(t, map[string][]string{"email": {"Email is invalid"}}, form.Fields)
	assert.Equal(t, []string{"Bad", "Discount is too high", "Discount is odd", "Metadata.id is too long"}, form.Other)
	assert.Equal(t, p.Status, form.Status)
	assert.Equal(t, p.Title, form.Title)
	assert.Len(t, p.Fields, 3, "For must not change p")
	assert.Equal(t, []string{"Bad"}, p.Other)
	assert.Len(t, p.For().Other, 5)
	assert.Nil(t, (*api.Problem)(nil).For("email"))
}

func TestProblemEncodesAsDocument(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		`{"status":409,"title":"Please connect your dispensary account.","reauthorize":true}`: api.ErrReauthorize,
		`{"status":422,"title":"` + invalid + `","fields":{"email":["Email is invalid"]}}`:    rejected(422, hidden.Message{Field: "email", Text: "Email is invalid"}),
		`{"status":422,"title":"` + invalid + `","other":["Email is invalid"]}`:               rejected(422, hidden.Message{Text: "Email is invalid"}),
	} {
		document, err := json.Marshal(api.ProblemOf(err).For("email"))
		require.NoError(t, err)
		assert.Equal(t, want, string(document))
	}
}

func TestProblemPrintsNoMessages(t *testing.T) {
	t.Parallel()
	p := api.ProblemOf(rejected(422, hidden.Message{Field: "email", Text: canaryText}, hidden.Message{Text: canaryText}))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d"} {
		assert.Equal(t, "422 "+invalid, fmt.Sprintf(verb, p), verb)
		assert.Equal(t, "422 "+invalid, fmt.Sprintf(verb, *p), verb)
	}
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("call", "problem", p)
	assert.Contains(t, out.String(), `"problem":{"status":422,"title":"`+invalid+`"}`)
	assert.NotContains(t, out.String(), canaryText)
}

func TestLabelReadsFieldName(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"email": "Email", "last_name": "Last name", "practitioner_id": "Practitioner", "metadata.id": "Metadata.id", "id": "Id",
		"recommendations[0].variant_id": "Recommendations[0].variant", "": "", "_id": "", "élan_vital": "Élan vital",
	} {
		assert.Equal(t, want, hidden.Label(field), field)
	}
}

func TestEnsureErrorNamesField(t *testing.T) {
	t.Parallel()
	err := &api.EnsureError{Operation: "patients.create", Reason: api.EnsureReasonTaken, Field: "email", IDs: []string{"p1"}}
	assert.EqualError(t, err, "dispensary: patients.create: email: the value belongs to a record with another metadata id or owner (p1)")
}

func TestEnsureErrorExplainsReason(t *testing.T) {
	t.Parallel()
	for _, reason := range []api.EnsureReason{
		api.EnsureReasonAmbiguous, api.EnsureReasonTaken, api.EnsureReasonContradicted, api.EnsureReasonAltered, api.EnsureReasonUnknown,
	} {
		assert.Regexp(t, "^[a-z]+$", string(reason), "reason must be a code")
		text := (&api.EnsureError{Operation: "patients.create", Reason: reason}).Error()
		assert.Regexp(t, `^dispensary: patients\.create: (a|several|the) [a-z ,-]+ [a-z ,-]+$`, text)
	}
	assert.EqualError(t, &api.EnsureError{Operation: "patients.create", Reason: "odd"}, "dispensary: patients.create: odd")
}
