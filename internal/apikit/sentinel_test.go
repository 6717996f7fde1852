package apikit_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit"
)

func TestSentinelDescribesItself(t *testing.T) {
	t.Parallel()
	problem := api.Problem{Status: 409, Title: "Please wait."}
	one, other := apikit.NewSentinel("text", problem), apikit.NewSentinel("text", problem)
	wrapped := fmt.Errorf("wrapped: %w: %w", one, errors.New("cause"))
	assert.ErrorIs(t, wrapped, one)
	assert.NotErrorIs(t, wrapped, other)
	assert.EqualError(t, one, "text")
	assert.Equal(t, &problem, api.ProblemOf(wrapped))
	api.ProblemOf(one).Status = 500
	assert.Equal(t, &problem, api.ProblemOf(one), "Problem returns a copy")
}
