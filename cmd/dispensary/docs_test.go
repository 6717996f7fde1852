package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The pages are in the command: nothing beside it is read.
func TestDocsAreServed(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	var stderr bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- programFor(t, in, &stderr).run(ctx, []string{"docs"})
		_ = in.CloseWithError(io.EOF)
	}()
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan(), "%s", &stderr)
	address, found := strings.CutPrefix(lines.Text(), "Documentation: ")
	require.True(t, found)
	for lines.Scan() && lines.Text() != "Ready." {
	}
	for page, want := range map[string]string{"": "Dispensary for Go", "cookbook.html": "Cookbook", "packages/webhook.html": "Package webhook"} {
		answer, err := http.Get(address + page)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, http.StatusOK, answer.StatusCode, page)
		assert.Contains(t, string(text), "<h1 id=\""+strings.ReplaceAll(strings.ToLower(want), " ", "-")+"\">"+want+"</h1>")
	}
	stop()
	assert.False(t, lines.Scan(), "nothing more is said")
	assert.Equal(t, exitDone, <-code)
}

func TestDocsAreWritten(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "site")
	code, out, stderr := runned(t, "docs", "--write", folder)
	assert.Equal(t, exitDone, code, stderr)
	assert.Empty(t, out)
	page, err := os.ReadFile(filepath.Join(folder, "packages", "webhook", "engine.html"))
	require.NoError(t, err)
	assert.Contains(t, string(page), "../../style.css")
	assert.FileExists(t, filepath.Join(folder, "style.css"))

	code, out, _ = runned(t, "help", "docs")
	assert.Equal(t, exitDone, code)
	assert.Contains(t, out, "dispensary docs [flags]")
}
