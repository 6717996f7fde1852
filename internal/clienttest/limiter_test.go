package clienttest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
)

func TestNewRateLimiter(t *testing.T) {
	t.Parallel()
	limiter, err := dispensary.NewRateLimiter(3, time.Minute)
	require.NoError(t, err)
	require.NoError(t, limiter.Wait(t.Context()))
	for _, per := range []time.Duration{0, -1} {
		_, err := dispensary.NewRateLimiter(1, per)
		assert.ErrorIs(t, err, dispensary.ErrArgument)
	}
	_, err = dispensary.NewRateLimiter(0, time.Second)
	assert.ErrorIs(t, err, dispensary.ErrArgument)
}
