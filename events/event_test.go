package events_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
)

// marked stands for a patient's data wherever a test looks for leaks.
const marked = "Zaphod-Marked"

// printed returns every way in which v may come to be read by people.
func printed(v any) string {
	var b bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%t"} {
		fmt.Fprintf(&b, verb+"\n", v)
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&b, nil), slog.NewJSONHandler(&b, nil)} {
		slog.New(h).Info("event", "value", v)
	}
	return b.String()
}

func TestEventPrintsTypeAndIDOnly(t *testing.T) {
	t.Parallel()
	e := events.Event{ID: "evt_1", Type: events.PatientUpdated, ClinicID: "cl_1", Data: json.RawMessage(`{"patient":{"first_name":"` + marked + `"}}`)}
	assert.Equal(t, `patient.updated "evt_1"`, e.String())
	assert.Equal(t, `events.Event(patient.updated "evt_1")`, fmt.Sprintf("%#v", e))
	for _, v := range []any{e, &e, []events.Event{e}, map[string]any{"e": &e}, struct{ E *events.Event }{&e}} {
		text := fmt.Sprintf("%v %+v %#v %s %d %x", v, v, v, v, v, v)
		assert.NotContains(t, text, marked)
		assert.NotContains(t, text, fmt.Sprintf("%x", marked))
		assert.NotContains(t, text, fmt.Sprint([]byte(marked))[1:20], "as a list of bytes")
	}
	assert.NotContains(t, printed(e), marked)
	assert.NotContains(t, printed(&e), marked)
}

func TestEventReadsFromLists(t *testing.T) {
	t.Parallel()
	var page struct{ Events []events.Event }
	body := []byte(`{"events":[` + bareEvent + `,{"id":7,"type":[],"created_at":"soon","extra":1},null]}`)
	require.NoError(t, json.Unmarshal(body, &page))
	clear(body)
	require.Len(t, page.Events, 3)
	assert.Equal(t, "evt_1", page.Events[0].ID)
	assert.JSONEq(t, `{"order":{"id":"or_1"}}`, string(page.Events[0].Data), "data is a copy")
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
