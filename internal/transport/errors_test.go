package transport

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// What an error has of an answer: status, request id, code, the wait that was asked for,
// and no more of the body than the limit.
func TestBuildErrorKeepsWhatTheAnswerSays(t *testing.T) {
	t.Parallel()
	body := `{"error":"invalid_request","error_description":"` + strings.Repeat("x", maxErrorBody) + `"}`
	client := newTestClient(t, says(503, body, "Retry-After", "7200"))
	_, err := One[thing](t.Context(), client, Call{Operation: operation.PatientGet, Path: []string{"p"}})
	var failure *api.Error
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, 503, failure.StatusCode)
	assert.Equal(t, "req-1", failure.RequestID)
	assert.Equal(t, 2*time.Hour, failure.RetryAfter)
	assert.Equal(t, 1, failure.Attempts, "the wait is longer than the policy allows")
	assert.Len(t, failure.Body(), maxErrorBody)
	assert.Empty(t, failure.Code, "a body that was cut is not decoded")
	assert.NotContains(t, err.Error(), "xxx")
}

// An argument that cannot be sent is the caller's error as it is; one inside a token
// source is the cause of a failed call.
func TestBuildErrorsLeavesArgumentErrorsAlone(t *testing.T) {
	t.Parallel()
	client := newTestClient(t, nil, func(c *Config) {
		c.Tokens = tokensOf(func() (api.AccessToken, error) { return api.AccessToken{}, &api.ArgumentError{Field: "Store"} })
	})
	_, err := One[thing](t.Context(), client, Call{Operation: operation.PatientGet})
	assert.IsType(t, &api.ArgumentError{}, err)
	_, err = One[thing](t.Context(), client, Call{Operation: operation.PatientGet, Path: []string{"p"}})
	assert.IsType(t, &api.Error{}, err)
	assert.ErrorIs(t, err, api.ErrInvalidArgument)
}
