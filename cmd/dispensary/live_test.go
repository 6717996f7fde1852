package main

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A page of the console that is left open does not keep the command from
// ending.
func TestItEndsWhileAPageIsOpen(t *testing.T) {
	t.Parallel()
	r := launch(t, "-state", filepath.Join(t.TempDir(), "state"))
	page, err := http.Get(r.settings.ConsoleURL + "live")
	require.NoError(t, err)
	assert.Equal(t, "text/event-stream", page.Header.Get("Content-Type"))
	r.stop()
	assert.Equal(t, exitDone, <-r.code)
	require.NoError(t, page.Body.Close())
}
