package joined_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/internal/joined"
)

func TestErrorsSplitsJoinedErrors(t *testing.T) {
	t.Parallel()
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	wrapped := fmt.Errorf("wrapped: %w", c)
	assert.Empty(t, joined.Errors(nil))
	assert.Equal(t, []error{a}, joined.Errors(a))
	assert.Equal(t, []error{a, b, wrapped}, joined.Errors(errors.Join(errors.Join(a, b), wrapped)))
}
