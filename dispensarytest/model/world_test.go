package model

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCentsFormatAsDecimals(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "34.99", Cents(3499).String())
	assert.Equal(t, "0.05", Cents(5).String())
	assert.Equal(t, "-1.50", Cents(-150).String())
}
