package events_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
)

const bareEvent = `{"id":"evt_1","type":"order.placed","created_at":"2026-11-20T10:20:30Z","clinic_id":"cl_1","data":{"order":{"id":"or_1"}},"integration_id":"in_1"}`

func TestParseReadsEveryEnvelope(t *testing.T) {
	t.Parallel()
	want := events.Event{
		ID: "evt_1", Type: events.TypeOrderPlaced,
		CreatedAt: api.Timestamp{Time: time.Date(2026, 11, 20, 10, 20, 30, 0, time.UTC)},
		ClinicID:  "cl_1", IntegrationID: "in_1",
		Data: json.RawMessage(`{"order":{"id":"or_1"}}`),
	}
	for name, body := range map[string]string{
		"event":                 `{"event":` + bareEvent + `}`,
		"event_payload":         `{"event_payload":{"event":` + bareEvent + `}}`,
		"bare":                  bareEvent,
		"white space":           "\n { \"event\" :\t" + bareEvent + "\r\n } ",
		"delivery log entry":    `{"id":"dl_1","attempt_number":2,"event_payload":{"event":` + bareEvent + `},"response_errors":null}`,
		"new members":           `{"patch_version":"2031-01-01","event":` + strings.Replace(bareEvent, "{", `{"event":{"id":"x","type":"y"},"new":[{}],`, 1) + `}`,
		"bare, member event":    strings.Replace(bareEvent, "{", `{"event":{"id":"x"},"event_payload":7,`, 1),
		"escapes":               strings.Replace(`{"ev\u0065nt":`+bareEvent+`}`, "order.placed", `order\u002eplaced`, 1),
		"last duplicate wins":   `{"event":{"id":"old","type":"old","clinic_id":"old"},"event":` + bareEvent + `}`,
		"documented goes first": `{"event_payload":{"event":{"id":"x","type":"y"}},"event":` + bareEvent + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := events.Parse([]byte(body))
			require.NoError(t, err)
			assert.EqualExportedValues(t, want, got)
		})
	}
}

func TestParseNeedsOnlyIDAndType(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		want events.Event
	}{
		"nothing else":   {`{"event":{"id":"e","type":"galaxy.born"}}`, events.Event{ID: "e", Type: "galaxy.born"}},
		"all null":       {`{"event":{"id":"e","type":"t","created_at":null,"clinic_id":null,"integration_id":null,"data":null}}`, events.Event{ID: "e", Type: "t"}},
		"strange kinds":  {`{"event":{"id":"e","type":"t","created_at":"soon","clinic_id":[1],"integration_id":{},"data":"x"}}`, events.Event{ID: "e", Type: "t", Data: json.RawMessage(`"x"`)}},
		"numbers as ids": {`{"event":{"id":12,"type":"t","clinic_id":-3,"integration_id":4e5}}`, events.Event{ID: "12", Type: "t", ClinicID: "-3", IntegrationID: "4e5"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := events.Parse([]byte(c.body))
			require.NoError(t, err)
			assert.EqualExportedValues(t, c.want, got)
		})
	}
}

// The error of an event without an ID or a type names the missing member.
func TestParseNamesMissingMember(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"event":{"id":"e"}}`:                        ": the type is missing or empty",
		`{"event":{"id":7,"type":""}}`:                ": the type is missing or empty",
		`{"id":"e","type":null}`:                      ": the type is missing or empty",
		`{"event_payload":{"event":{"type":"t"}}}`:    ": the id is missing or empty",
		`{"event":{"type":"t","id":{}},"id":"other"}`: ": the id is missing or empty",
		`{"event":{},"type":"t"}`:                     ": the id is missing or empty",
		`{"event":{"id":"","type":""}}`:               "",
		`{}`:                                          "",
	} {
		_, err := events.Parse([]byte(body))
		require.ErrorIs(t, err, events.ErrNoEvent, body)
		assert.EqualError(t, err, events.ErrNoEvent.Error()+want, body)
	}
}

func TestParseRejectsInvalidBodies(t *testing.T) {
	t.Parallel()
	deep := func(n int) string {
		return `{"id":"e","type":"t","data":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	_, err := events.Parse([]byte(deep(9_999)))
	require.NoError(t, err)

	for name, c := range map[string]struct {
		body string
		want error
	}{
		"empty":           {``, events.ErrMalformed},
		"cut off":         {bareEvent[:50], events.ErrMalformed},
		"trailing text":   {bareEvent + "x", events.ErrMalformed},
		"form":            {`event=placed`, events.ErrMalformed},
		"too deep":        {deep(10_000), events.ErrMalformed},
		"not an object":   {`[` + bareEvent + `]`, events.ErrNoEvent},
		"null":            {`null`, events.ErrNoEvent},
		"empty object":    {`{}`, events.ErrNoEvent},
		"no id":           {`{"event":{"type":"order.placed"}}`, events.ErrNoEvent},
		"no type":         {`{"event":{"id":"e"}}`, events.ErrNoEvent},
		"empty id":        {`{"event":{"id":"","type":"order.placed"}}`, events.ErrNoEvent},
		"id of two kinds": {`{"event":{"id":{},"type":true}}`, events.ErrNoEvent},
		"upper-case keys": {`{"Event":{"ID":"e","Type":"t"}}`, events.ErrNoEvent},
		"doubly wrapped":  {`{"event":{"event":{"id":"e","type":"t"}}}`, events.ErrNoEvent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := events.Parse([]byte(c.body))
			require.ErrorIs(t, err, c.want)
			assert.Equal(t, events.Event{}, got)
		})
	}
}

func TestParseReportsErrorPosition(t *testing.T) {
	t.Parallel()
	_, err := events.Parse([]byte(`{"event":{"id":"secret" oops`))
	require.EqualError(t, err, "events: body is not valid JSON at byte 24")
}

func TestParseSharesBodyMemory(t *testing.T) { // not parallel: it counts allocations
	body := []byte(bareEvent)
	e, err := events.Parse(body)
	require.NoError(t, err)
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = events.Parse(body) }), 4.0, "Parse must not copy the body")
	clear(body)
	assert.Equal(t, byte(0), e.Data[0])
	assert.Equal(t, "evt_1", e.ID)
}

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
