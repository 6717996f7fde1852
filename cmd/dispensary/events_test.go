package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	first, second := f.order(), f.order()
	_, edited, err := f.platform.Patients.Edit(f.platform.Patients.All()[0].ID, model.PatientChange{FirstName: new("Ada")})
	require.NoError(t, err)

	code, out, stderr := f.run("events", "list", "--since", "1h", "--json")
	require.Equal(t, exitDone, code, stderr)
	assert.Equal(t, strings.Count(out, "\n"), assertDocuments(t, "events list", out))
	assert.NotContains(t, out, "Ada")
	_, out, _ = f.run("events", "list", "--since", "1h", "--type", "order.placed")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.GreaterOrEqual(t, len(lines), 2)
	assert.Contains(t, lines[len(lines)-2], "\torder.placed\t"+first+"\t")
	assert.Contains(t, lines[len(lines)-1], second)

	code, out, stderr = f.run("events", "get", first, edited.ID, "--json")
	require.Equal(t, exitDone, code, stderr)
	assert.Equal(t, 2, assertDocuments(t, "events get", out))
	assert.Contains(t, out, "Ada")
	code, _, stderr = f.run("events", "get", "unknown")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "404")

	f.refused("--since: not a time that is over", "events", "list", "--since", "-1h")
	f.refused("--type holds", "events", "list", "--type", "x")
	f.refused("get wants the ids", "events", "get")
}

func TestEventsReplay(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	first, second := f.order(), f.order()
	to := newDestination(t)
	code, out, stderr := f.run("events", "replay", first, "--forward-to", to.url, "--json")
	assert.Equal(t, exitFailed, code)
	assert.Equal(t, "dispensary: 1 of 1 events were not acknowledged\n", stderr)
	assert.Contains(t, out, `"status":503,"challenge":false`)

	kept, err := os.ReadFile(filepath.Join(f.folder, "dispensary", "receiver.json"))
	require.NoError(t, err)
	var with receiverSecrets
	require.NoError(t, json.Unmarshal(bytes.TrimSpace(kept), &with))
	to.configure(t, receiverSecrets{Secret: "that of the platform", Challenge: with.Challenge})
	code, _, stderr = f.run("events", "replay", first, "--forward-to", to.url)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "1 of 1 events were not acknowledged: a receiver that has the secret of the platform wants --configured")
	to.configure(t, with)
	for range 2 { // the second time they are duplicates, which are acknowledged
		code, out, stderr = f.run("events", "replay", "--since", "1h", "--type", "order.placed", "--forward-to", to.url, "--json")
		require.Equal(t, exitDone, code, stderr)
		assert.Equal(t, strings.Count(out, "\n"), assertDocuments(t, "events replay", out))
		assert.Contains(t, out, first)
		assert.Contains(t, out, second)
	}
	handled := map[string]bool{}
	for len(handled) < strings.Count(out, "\n") {
		handled[<-to.handled] = true
	}
	assert.Empty(t, to.handled)

	f.refused("either the ids of events, or --since", "events", "replay", "--forward-to", to.url)
	f.refused("either the ids of events, or --since", "events", "replay", first, "--since", "1h", "--forward-to", to.url)
	f.refused("--forward-to is needed", "events", "replay", first)
}
