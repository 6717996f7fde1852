package main

import (
	"testing"

	"github.com/dispensary-go/dispensary/examples/mount/mounttest"
)

func TestMounted(t *testing.T) {
	t.Parallel()
	mounttest.Run(t, routes)
}
