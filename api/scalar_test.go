package api_test

import (
	"encoding/json"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
)

// scalars has one field of every lenient type.
type scalars struct {
	Decimal   api.Decimal   `json:"decimal"`
	Date      api.Date      `json:"date"`
	Timestamp api.Timestamp `json:"timestamp"`
}

func TestScalarsReadAllForms(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for body, want := range map[string]scalars{
		`{}`:                                             {},
		`{"decimal":"12.50"}`:                            {Decimal: "12.50"},
		`{"decimal":12.50}`:                              {Decimal: "12.50"},
		`{"decimal":"-0.01"}`:                            {Decimal: "-0.01"},
		`{"decimal":null}`:                               {},
		`{"date":"2026-03-04"}`:                          {Date: api.Date{Year: 2026, Month: 3, Day: 4}},
		`{"date":"2026-03-04T23:00:00-05:00"}`:           {Date: api.Date{Year: 2026, Month: 3, Day: 4}},
		`{"date":null}`:                                  {},
		`{"date":""}`:                                    {},
		`{"timestamp":"2026-03-04T12:00:00Z"}`:           {Timestamp: api.Timestamp{Time: noon}},
		`{"timestamp":"2026-03-04T12:00:00.000Z"}`:       {Timestamp: api.Timestamp{Time: noon}},
		`{"timestamp":"2026-03-04T07:00:00-05:00"}`:      {Timestamp: api.Timestamp{Time: noon}},
		`{"timestamp":"2026-03-04 12:00:00 GMT"}`:        {Timestamp: api.Timestamp{Time: noon}},
		`{"timestamp":"2026-03-04 12:00:00 Z"}`:          {Timestamp: api.Timestamp{Time: noon}},
		`{"timestamp":"2026-03-04T12:00:00\u002B00:00"}`: {Timestamp: api.Timestamp{Time: noon}},
		`{"date":"2026\u002d03\u002d04"}`:                {Date: api.Date{Year: 2026, Month: 3, Day: 4}},
		`{"decimal":"\u0031.50"}`:                        {Decimal: "1.50"},
		`{"decimal":1e3}`:                                {Decimal: "1e3"},
		`{"timestamp":"2026-03-04 12:00:00 UTC"}`:        {Timestamp: api.Timestamp{Time: noon}},
		`{"timestamp":"2026-03-04"}`:                     {Timestamp: api.Timestamp{Time: noon.Add(-12 * time.Hour)}},
		`{"timestamp":null}`:                             {},
	} {
		var got scalars
		require.NoError(t, json.Unmarshal([]byte(body), &got), body)
		assert.True(t, want.Timestamp.Equal(got.Timestamp.Time), body)
		want.Timestamp, got.Timestamp = api.Timestamp{}, api.Timestamp{}
		assert.Equal(t, want, got, body)
	}
}

// Ambiguous text is an error, and the error does not repeat the text.
func TestScalarsRejectAmbiguousText(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"decimal":"canary"}`, `{"decimal":"0x1F"}`, `{"decimal":"Inf"}`, `{"decimal":"1_000"}`, `{"decimal":1e999}`, `{"decimal":"null"}`, `{"decimal":true}`,
		`{"date":"canary"}`, `{"date":"2026-02-30"}`, `{"date":20260304}`,
		`{"timestamp":"canary"}`, `{"timestamp":1591826856}`, `{"timestamp":"null"}`,
		`{"timestamp":"2026-03-04 12:00:00 EST"}`, `{"timestamp":"2026-03-04 12:00:00 PDT"}`, `{"timestamp":"2026-03-04 12:00:00 GMT+3"}`,
	} {
		var got scalars
		err := json.Unmarshal([]byte(body), &got)
		require.Error(t, err, body)
		assert.NotContains(t, err.Error(), "canary")
	}
}

func TestScalarsWriteCanonicalForm(t *testing.T) {
	t.Parallel()
	body, err := json.Marshal(scalars{
		Decimal:   "12.50",
		Date:      api.Date{Year: 2026, Month: 3, Day: 4},
		Timestamp: api.Timestamp{Time: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)},
	})
	require.NoError(t, err)
	assert.JSONEq(t, `{"decimal":"12.50","date":"2026-03-04","timestamp":"2026-03-04T12:00:00Z"}`, string(body))

	body, err = json.Marshal(scalars{})
	require.NoError(t, err)
	assert.JSONEq(t, `{"decimal":null,"date":null,"timestamp":null}`, string(body))

	for _, bad := range []any{api.Decimal("12,50"), api.Date{Year: 2026, Month: 2, Day: 30}} {
		_, err := json.Marshal(bad)
		assert.Error(t, err)
	}
}

// Every input either decodes or fails. A decoded scalar survives a round trip.
func FuzzScalars(f *testing.F) {
	for _, seed := range []string{`true`, `"1"`, `10`, `"10.0"`, `"2026-03-04"`, `"2026-03-04T12:00:00Z"`, `null`, `""`, `"\u0041"`, `{}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		roundTrip[api.Decimal](t, data)
		roundTrip[api.Date](t, data)
	})
}

func roundTrip[T comparable](t *testing.T, data []byte) {
	t.Helper()
	var first, second T
	if json.Unmarshal(data, &first) != nil {
		return
	}
	encoded, err := json.Marshal(first)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(encoded, &second))
	assert.Equal(t, first, second)
}
