package api_test

import (
	"database/sql"
	"database/sql/driver"
	"encoding"
	"encoding/json"
	"flag"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
)

func TestDateCompareAndText(t *testing.T) {
	t.Parallel()
	date, err := api.ParseDate("1984-02-29")
	require.NoError(t, err)
	assert.Equal(t, api.Date{Year: 1984, Month: 2, Day: 29}, date)
	assert.Equal(t, "1984-02-29", date.String())
	assert.Empty(t, api.Date{}.String())
	assert.NoError(t, date.Validate())
	assert.Equal(t, -1, date.Compare(api.Date{Year: 1984, Month: 3, Day: 1}))
	assert.Zero(t, date.Compare(date))
	assert.Equal(t, 1, date.Compare(api.Date{}), "null is before all days")
	assert.Equal(t, date, api.DateOf(time.Date(1984, 2, 29, 23, 0, 0, 0, time.UTC)))
}

func TestDateRejectsOtherText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"canary", "canary-02-28", "2026-02-30", "2026-2-3", "2026-02-03T00:00:00Z", " 2026-02-03", "02026-02-03", "0000-03-15"} {
		_, err := api.ParseDate(text)
		requireArgument(t, err, text)
		date := api.Date{Year: 1984, Month: 2, Day: 29}
		requireArgument(t, date.UnmarshalText([]byte(text)), text)
		requireArgument(t, date.Scan(text), text)
		requireArgument(t, date.Scan([]byte(text)), text)
		assert.Equal(t, api.Date{Year: 1984, Month: 2, Day: 29}, date, "a failed parse must not change the value")
	}
	_, err := api.ParseDate("")
	requireArgument(t, err, "empty text")
	for _, source := range []any{int64(4711), 47.11, true} {
		requireArgument(t, new(api.Date).Scan(source), "47")
	}
}

// requireArgument requires an ArgumentError without the text.
func requireArgument(t *testing.T, err error, text string) {
	t.Helper()
	var argument *api.ArgumentError
	require.ErrorAs(t, err, &argument, text)
	require.ErrorIs(t, err, api.ErrArgument)
	assert.NotContains(t, err.Error(), text)
}

func TestDateRejectsInvalidDay(t *testing.T) {
	t.Parallel()
	for _, date := range []api.Date{{Year: 1985, Month: 2, Day: 29}, {Year: 2026, Month: 13, Day: 1}, {Year: 2026}, {Year: 12026, Month: 1, Day: 1}, {Month: 1, Day: 1}, {Year: -1, Month: 1, Day: 1}, {Year: 1, Month: 1, Day: 1}} {
		_, text := date.MarshalText()
		_, document := date.MarshalJSON()
		_, column := date.Value()
		for _, err := range []error{date.Validate(), text, document, column} {
			require.ErrorIs(t, err, api.ErrArgument, "%#v", date)
		}
	}
}

func TestDateReadsAndWritesColumns(t *testing.T) {
	t.Parallel()
	date, newYork := api.Date{Year: 2026, Month: 3, Day: 4}, time.FixedZone("", -5*3600)
	for source, want := range map[any]api.Date{
		nil: {}, "": {}, "2026-03-04": date,
		time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC):   date,
		time.Date(2026, 3, 4, 23, 59, 59, 0, newYork): date,
		time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC):   {Year: 2026, Month: 3, Day: 5},
		time.Date(1900, 1, 1, 0, 0, 0, 0, newYork):    {Year: 1900, Month: 1, Day: 1},
	} {
		got := api.Date{Year: 1999, Month: 1, Day: 1}
		require.NoError(t, got.Scan(source), source)
		assert.Equal(t, want, got, source)
	}
	var got api.Date
	require.NoError(t, got.Scan([]byte("2026-03-04")))
	assert.Equal(t, date, got)
	value, err := date.Value()
	require.NoError(t, err)
	assert.Equal(t, "2026-03-04", value)
	value, err = api.Date{}.Value()
	require.NoError(t, err)
	assert.Nil(t, value)
}

func TestUnknownDayReadsAsNull(t *testing.T) {
	t.Parallel()
	newYork, tokyo := time.FixedZone("", -5*3600), time.FixedZone("", 9*3600)
	times := []time.Time{{}, time.Time{}.In(newYork), time.Time{}.In(tokyo), time.Date(1, 1, 1, 0, 0, 0, 0, newYork), time.Date(1, 1, 1, 23, 0, 0, 0, tokyo)}
	for _, unknown := range times {
		date := api.Date{Year: 1999, Month: 1, Day: 1}
		require.NoError(t, date.Scan(unknown), unknown)
		assert.Zero(t, date, unknown)
		assert.Zero(t, api.DateOf(unknown), unknown)
	}
	for _, source := range []any{"0001-01-01", []byte("0001-01-01"), "0000-00-00", []byte("0000-00-00")} {
		date := api.Date{Year: 1999, Month: 1, Day: 1}
		require.NoError(t, date.Scan(source), source)
		assert.Zero(t, date, source)
	}
	for _, text := range []string{"0001-01-01", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00-05:00", "0001-01-01 00:00:00"} {
		date := api.Date{Year: 1999, Month: 1, Day: 1}
		require.NoError(t, json.Unmarshal([]byte(`"`+text+`"`), &date), text)
		assert.Zero(t, date, text)
	}
	date, err := api.ParseDate("0001-01-01")
	require.NoError(t, err)
	assert.Zero(t, date)
	require.NoError(t, date.UnmarshalText([]byte("0001-01-01")))
	assert.Zero(t, date)
}

func TestScanRejectsDayBeforeChrist(t *testing.T) {
	t.Parallel()
	for _, year := range []int{0, -43, 10000} {
		date := api.Date{Year: 1999, Month: 1, Day: 1}
		require.ErrorIs(t, date.Scan(time.Date(year, 3, 15, 0, 0, 0, 0, time.UTC)), api.ErrArgument, year)
		assert.Equal(t, api.Date{Year: 1999, Month: 1, Day: 1}, date, "a failed Scan must not change the value")
	}
	require.Error(t, json.Unmarshal([]byte(`"0000-03-15"`), new(api.Date)))
}

func TestDateWorksInFlagsAndKeys(t *testing.T) {
	t.Parallel()
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var since api.Date
	flags.TextVar(&since, "since", api.Date{}, "")
	require.NoError(t, flags.Parse([]string{"--since", "2026-03-04"}))
	assert.Equal(t, api.Date{Year: 2026, Month: 3, Day: 4}, since)
	require.Error(t, flags.Parse([]string{"--since", "tomorrow"}))

	encoded, err := json.Marshal(map[api.Date]int{since: 1})
	require.NoError(t, err)
	assert.JSONEq(t, `{"2026-03-04":1}`, string(encoded))
	var decoded map[api.Date]int
	require.NoError(t, json.Unmarshal(encoded, &decoded))
	assert.Equal(t, map[api.Date]int{since: 1}, decoded)
}

func FuzzDate(f *testing.F) {
	for _, seed := range []string{"2026-03-04", "1984-02-29", "1985-02-29", "0000-01-01", "0001-01-01", "9999-12-31", "", "2026-03-04T00:00:00Z", "canary"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		date, err := api.ParseDate(text)
		if err != nil {
			require.ErrorIs(t, err, api.ErrArgument)
			require.Equal(t, "dispensary: date is not a day of the form yyyy-mm-dd", err.Error())
			require.Zero(t, date)
			return
		}
		if text == "0001-01-01" {
			require.Zero(t, date)
			return
		}
		require.Equal(t, text, date.String())
		require.Equal(t, date, api.DateOf(time.Date(date.Year, date.Month, date.Day, 0, 0, 0, 0, time.UTC)))
		require.Equal(t, date, written(t, date))
	})
}

// scalar is a pointer to a Decimal or a Date.
type scalar[T any] interface {
	*T
	encoding.TextMarshaler
	encoding.TextUnmarshaler
	driver.Valuer
	sql.Scanner
}

// written returns value after a round trip as text, JSON and a column. All three must yield
// the same value.
func written[T comparable, P scalar[T]](t *testing.T, value T) T {
	t.Helper()
	var text, document, column T
	from := P(&value)
	encoded, err := from.MarshalText()
	require.NoError(t, err)
	require.NoError(t, P(&text).UnmarshalText(encoded))
	encoded, err = json.Marshal(value)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(encoded, &document))
	stored, err := from.Value()
	require.NoError(t, err)
	require.NoError(t, P(&column).Scan(stored))
	require.Equal(t, text, document)
	require.Equal(t, text, column)
	return text
}
