package clienttest_test

import (
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/ratelimit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLimiterValidatesArguments(t *testing.T) {
	t.Parallel()
	limiter, err := ratelimit.New(3, time.Minute)
	require.NoError(t, err)
	require.NoError(t, limiter.Wait(t.Context()))
	for _, per := range []time.Duration{0, -1} {
		_, err := ratelimit.New(1, per)
		assert.ErrorIs(t, err, api.ErrArgument)
	}
	_, err = ratelimit.New(0, time.Second)
	assert.ErrorIs(t, err, api.ErrArgument)
}
