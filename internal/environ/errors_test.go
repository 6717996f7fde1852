package environ_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/internal/environ"
)

func TestErrorsSplitsJoinedErrors(t *testing.T) {
	t.Parallel()
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	wrapped := fmt.Errorf("wrapped: %w", c)
	assert.Empty(t, environ.Errors(nil))
	assert.Equal(t, []error{a}, environ.Errors(a))
	assert.Equal(t, []error{a, b, wrapped}, environ.Errors(errors.Join(errors.Join(a, b), wrapped)))
}
