package testsize_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/internal/testsize"
)

func TestOf(t *testing.T) {
	t.Setenv("DISPENSARY_TEST_FULL", "")
	assert.Equal(t, 3, testsize.Of(3, 1000))
	t.Setenv("DISPENSARY_TEST_FULL", "1")
	assert.Equal(t, 1000, testsize.Of(3, 1000))
}
