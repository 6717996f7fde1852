package main

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

func TestTheStory(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, log bytes.Buffer
	require.NoError(t, run(ctx, &out, slog.New(slog.NewTextHandler(&log, nil))))
	assert.Equal(t, strings.TrimLeft(`
recovered 0 of 0 missed; pages: 6, reads: 0
2 orders arrived by webhook
25 orders were refused, and then the address was switched off: attempts kept failing for more than 24 hours
5 orders were not sent at all
1 order arrived by webhook, after the repair
recovered 30 of 30 missed; pages: 6, reads: 5; failed deliveries: 25 (25 status 401)
`, "\n"), out.String())
	for _, line := range []string{"body was read or changed before it reached the handler", "over=true", "webhook events reconciled"} {
		assert.Contains(t, log.String(), line)
	}
}

// A receiver that starts again goes on where it was, and what happened while it
// was not there is recovered.
func TestARestart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := &story{platform: dispensarytest.New(t, connected), handled: make(chan string, 10), reports: make(chan reconcile.Report, 10)}
	settings, err := s.settings(filepath.Join(t.TempDir(), "inbox.db"), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	for _, want := range []string{
		"recovered 0 of 0 missed; pages: 6, reads: 0",
		"recovered 2 of 2 missed; pages: 6, reads: 2",
		"recovered 2 of 2 missed; pages: 6, reads: 2",
	} {
		var out bytes.Buffer
		s.out = &out
		receiver, err := newReceiver(settings)
		require.NoError(t, err)
		require.NoError(t, s.report(ctx))
		assert.Equal(t, want+"\n", out.String())
		require.NoError(t, receiver.close(ctx))
		for range 2 {
			require.NoError(t, s.place(0))
		}
	}
}
