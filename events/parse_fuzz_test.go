package events_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
)

// FuzzParse compares Parse with an oracle on encoding/json: both must reject the same bodies
// and read the same event from all others.
func FuzzParse(f *testing.F) {
	for _, body := range []string{
		`{"event":{"id":"e1","type":"order.placed","created_at":"2026-11-20T10:20:30Z","clinic_id":"c","integration_id":"i","data":{"order":{"id":"o"}}}}`,
		`{"event_payload":{"event":{"id":"e1","type":"patient.updated","data":null}}}`,
		` { "id" : "e1" , "type" : "product.created" , "data" : [ 1 , -0.5e+3 , true , false , null , "x" ] } `,
		`{"event":{"id":"a","type":"b"},"event":{"id":"c","type":"d"},"event_payload":null}`,
		`{"event":null,"id":7,"type":"t\u0065st\ud83d\ude00\ud800","created_at":"2026-11-20"}`,
		`{"event":{"id":"","type":"x","event":{"id":"inner","type":"inner"}},"event_payload":{"event":7}}`,
		`[]`, `"event"`, `null`, ``, `{`, `{"a":01}`, `{"a":"` + "\x01" + `"}`, `{"id":"` + "\xff" + `","type":"x"}`, `{"a":1}}`,
		`{"a":1,}`, `{"a":.5}`, `{"a":1.}`, `{"a":1e}`, `{"a":"\x"}`, `{"a":"\u00g0"}`, `[1,]`, `{"a"1}`, `{1:2}`, `tru`, "\ufeff{}",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := events.Parse(body)
		want, wantErr := oracle(body)
		require.ErrorIs(t, err, wantErr)
		if wantErr != nil {
			assert.Equal(t, events.Event{}, got)
			return
		}
		require.NoError(t, err)
		assert.True(t, want.CreatedAt.Equal(got.CreatedAt.Time), "created_at")
		got.CreatedAt, want.CreatedAt = api.Timestamp{}, api.Timestamp{}
		assert.EqualExportedValues(t, want, got)
	})
}

// oracle is a slow Parse on encoding/json.
func oracle(body []byte) (events.Event, error) {
	if !json.Valid(body) {
		return events.Event{}, events.ErrMalformed
	}
	top := object(body)
	for _, raw := range []json.RawMessage{top["event"], object(top["event_payload"])["event"], body} {
		m := object(raw)
		e := events.Event{
			ID: scalar(m["id"]), Type: events.Type(scalar(m["type"])),
			ClinicID: scalar(m["clinic_id"]), IntegrationID: scalar(m["integration_id"]),
		}
		if e.ID == "" || e.Type == "" {
			continue
		}
		if at := m["created_at"]; at != nil {
			_ = json.Unmarshal(at, &e.CreatedAt)
		}
		if string(m["data"]) != "null" {
			e.Data = m["data"]
		}
		return e, nil
	}
	return events.Event{}, events.ErrNoEvent
}

// object returns the members of a JSON object, or nil for any other value. Unlike a struct, a
// map distinguishes upper and lower case.
func object(raw []byte) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(raw, &m)
	return m
}

func scalar(raw json.RawMessage) string {
	if len(raw) == 0 || strings.IndexByte(`{[tfn`, raw[0]) >= 0 {
		return ""
	}
	if raw[0] != '"' {
		return string(raw) // a number
	}
	var text string
	_ = json.Unmarshal(raw, &text)
	return text
}
