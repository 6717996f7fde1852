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

func failedCreate() *api.Error {
	return apikit.NewError(api.Error{
		Operation: "patients.create", Method: "POST", Route: "/clinic/patients",
		StatusCode: 500, RequestID: "7f3c", Attempts: 1, Outcome: api.OutcomeMaybeApplied,
	}, nil, []byte(`{"error":["canary"]}`), []hidden.Message{{Text: "canary"}})
}

func TestErrorTextShowsResponse(t *testing.T) {
	t.Parallel()
	assert.EqualError(t, failedCreate(), "dispensary: patients.create POST /clinic/patients: "+
		"500 Internal Server Error: write may have been applied (request id 7f3c)")
	assert.EqualError(t, &api.Error{
		Operation: "oauth.token", Method: "POST", Route: "/oauth/token", StatusCode: 400,
		Code: "invalid_grant", Outcome: api.OutcomeNotApplied,
	}, "dispensary: oauth.token POST /oauth/token: 400 Bad Request: invalid_grant")
	assert.EqualError(t, apikit.NewError(api.Error{Operation: "clinic.get", Method: "GET", Route: "/clinic"},
		context.Canceled, nil, nil), "dispensary: clinic.get GET /clinic: context canceled")
}

func TestErrorPrintsNoBody(t *testing.T) {
	t.Parallel()
	err := failedCreate()
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Error("x", "err", err)
	slog.New(slog.NewJSONHandler(&log, nil)).Error("x", "err", err, "copy", *err)
	encoded, _ := json.Marshal(err)
	forms := []string{log.String(), string(encoded)}
	for _, v := range []any{err, *err, struct{ E error }{err}, struct{ e api.Error }{*err}, []error{err}, fmt.Errorf("wrapped: %w", err)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			forms = append(forms, fmt.Sprintf(verb, v))
		}
	}
	for _, form := range forms {
		assert.NotContains(t, form, "canary")
		assert.NotContains(t, form, "63616e617279", "canary in hexadecimal")
	}
	assert.Contains(t, log.String(), "request_id=7f3c")
	assert.Contains(t, log.String(), "err.outcome=maybe_applied")
}

func TestErrorMethodsReturnBodyAndMessages(t *testing.T) {
	t.Parallel()
	err := failedCreate()
	assert.JSONEq(t, `{"error":["canary"]}`, string(err.Body()))
	assert.Equal(t, []string{"canary"}, err.Messages())
	err.Body()[0] = 'x'
	err.Messages()[0] = "changed"
	assert.JSONEq(t, `{"error":["canary"]}`, string(err.Body()), "Body must return a copy")
	assert.Equal(t, []string{"canary"}, err.Messages())
}

func TestErrorMatchesSentinelOfStatus(t *testing.T) {
	t.Parallel()
	sentinels := map[error][]int{
		api.ErrUnauthorized: {401}, api.ErrForbidden: {403}, api.ErrNotFound: {404},
		api.ErrValidation: {400, 409, 422}, api.ErrRateLimited: {429}, api.ErrServer: {500, 502, 503, 504},
	}
	for sentinel, statuses := range sentinels {
		for _, status := range statuses {
			err := error(&api.Error{StatusCode: status})
			for other := range sentinels {
				assert.Equal(t, other == sentinel, errors.Is(err, other), "%d, %v", status, other)
			}
		}
	}
	for _, status := range []int{0, 200, 302, 418} {
		for sentinel := range sentinels {
			assert.NotErrorIs(t, &api.Error{StatusCode: status}, sentinel)
		}
	}
	assert.False(t, errors.Is(&api.Error{}, nil))
}

func TestErrorReportsTimeout(t *testing.T) {
	t.Parallel()
	assert.True(t, apikit.NewError(api.Error{}, context.DeadlineExceeded, nil, nil).Timeout())
	assert.True(t, apikit.NewError(api.Error{}, fmt.Errorf("token: %w", apikit.NewError(api.Error{}, context.DeadlineExceeded, nil, nil)), nil, nil).Timeout())
	assert.False(t, apikit.NewError(api.Error{}, context.Canceled, nil, nil).Timeout())
	assert.False(t, (&api.Error{StatusCode: 504}).Timeout())
}

func TestZeroErrorWorks(t *testing.T) {
	t.Parallel()
	var err api.Error
	assert.NotPanics(t, func() { _ = err.Error(); _ = err.Body(); _ = err.Messages(); _ = err.LogValue() })
}

func TestErrorLogsRetryAfter(t *testing.T) {
	t.Parallel()
	value := (&api.Error{StatusCode: 429, RetryAfter: 3 * time.Second, Code: "c"}).LogValue().String()
	assert.Contains(t, value, "retry_after=3s")
}

func TestArgumentErrorText(t *testing.T) {
	t.Parallel()
	err := error(&api.ArgumentError{Operation: "patients.create", Field: "email", Reason: "can't be blank"})
	assert.EqualError(t, err, "dispensary: patients.create: email can't be blank")
	assert.ErrorIs(t, err, api.ErrArgument)
	assert.ErrorIs(t, err, api.ErrNotSent)
	assert.EqualError(t, &api.ArgumentError{Field: "Limit", Reason: "must not be negative"}, "dispensary: Limit must not be negative")
}

func TestArgumentErrorsMatchEach(t *testing.T) {
	t.Parallel()
	email := &api.ArgumentError{Operation: "patients.create", Field: "email", Reason: "can't be blank"}
	name := &api.ArgumentError{Operation: "patients.create", Field: "last_name", Reason: "can't be blank"}
	site := &api.ArgumentError{Field: "Site.BaseURL", Reason: "is plain HTTP", Err: api.ErrInsecure}

	require.NoError(t, api.ArgumentErrors{}.Err())
	assert.Equal(t, error(email), api.ArgumentErrors{email}.Err(), "one error is returned unchanged")

	err := api.ArgumentErrors{email, name, site}.Err()
	assert.EqualError(t, err, "dispensary: patients.create: email can't be blank, last_name can't be blank, Site.BaseURL is plain HTTP")
	for _, sentinel := range []error{api.ErrArgument, api.ErrNotSent, api.ErrInsecure} {
		assert.ErrorIs(t, err, sentinel)
	}
	assert.NotErrorIs(t, err, api.ErrValidation, "the platform sent no response")
	var first *api.ArgumentError
	require.ErrorAs(t, err, &first)
	assert.Equal(t, email, first)
	var all api.ArgumentErrors
	require.ErrorAs(t, err, &all)
	assert.Len(t, all, 3)
}
