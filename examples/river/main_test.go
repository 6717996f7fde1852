package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryOrderIsPackedOnce(t *testing.T) {
	t.Parallel()
	address := os.Getenv("DISPENSARY_TEST_POSTGRES")
	if address == "" {
		t.Skip("DISPENSARY_TEST_POSTGRES is not set")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	require.NoError(t, run(ctx, &out, address, "example_"+strings.ToLower(rand.Text()[:10])))
	assert.Equal(t, "10 orders were acknowledged\nall of them were packed, for 10 shipments\n", out.String())
}
