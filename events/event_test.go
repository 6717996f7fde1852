package events_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
)

// marked is patient data in tests for leaks.
const marked = "Zaphod-Marked"

// The tests of package redact check all other ways of printing.
func TestEventPrintsTypeAndID(t *testing.T) {
	t.Parallel()
	e := events.Event{ID: "evt_1", Type: events.TypePatientUpdated}
	assert.Equal(t, `patient.updated "evt_1"`, e.String())
	assert.Equal(t, `events.Event(patient.updated "evt_1")`, fmt.Sprintf("%#v", e))
	assert.Equal(t, `[patient.updated "evt_1"]`, fmt.Sprintf("%d", []any{e}))
	assert.Equal(t, "[type=patient.updated id=evt_1]", e.LogValue().String())
}

func TestEventReadsFromLists(t *testing.T) {
	t.Parallel()
	var page struct{ Events []events.Event }
	body := []byte(`{"events":[` + bareEvent + `,{"id":7,"type":[],"created_at":"soon","extra":1},null]}`)
	require.NoError(t, json.Unmarshal(body, &page))
	clear(body)
	require.Len(t, page.Events, 3)
	assert.Equal(t, "evt_1", page.Events[0].ID)
	assert.JSONEq(t, `{"order":{"id":"or_1"}}`, string(page.Events[0].Data), "data must be a copy")
	assert.EqualExportedValues(t, events.Event{ID: "7"}, page.Events[1])
	assert.Equal(t, events.Event{}, page.Events[2])

	var e events.Event
	require.ErrorIs(t, json.Unmarshal([]byte(`"x"`), &e), events.ErrNoEvent)
	require.ErrorIs(t, e.UnmarshalJSON([]byte(`{"id":}`)), events.ErrMalformed)
}

func TestEventSurvivesEncoding(t *testing.T) {
	t.Parallel()
	e, err := events.Parse([]byte(bareEvent))
	require.NoError(t, err)
	body, err := json.Marshal(e)
	require.NoError(t, err)
	again, err := events.Parse(body)
	require.NoError(t, err)
	assert.EqualExportedValues(t, e, again)

	body, err = json.Marshal(events.Event{ID: "e", Type: "t"})
	require.NoError(t, err)
	assert.JSONEq(t, `{"id":"e","type":"t","created_at":null}`, string(body))
}
