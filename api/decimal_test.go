package api_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
)

// Compare and add order totals without a float.
func ExampleDecimal() {
	total := api.Decimal("12.50") // for example order.PaymentTotal
	fmt.Println(total == "12.5")  // compares texts
	fmt.Println(total.Compare("12.5"), total.Compare("9.99"))

	sum := total.Rat()
	sum.Add(sum, api.Decimal("0.10").Rat())
	fmt.Println(sum.FloatString(2))
	// Output:
	// false
	// 0 1
	// 12.60
}

// numbers are groups of equal numbers, in ascending order.
var numbers = [][]string{
	{"", "canary", "1/3", "0x10"}, // null, and invalid text of converted Decimals
	{"-1e308"},
	{"-123456789012345678901234567890.2"},
	{"-123456789012345678901234567890.1"},
	{"-10", "-1e1", "-10.0", "-0010", "-100e-1"},
	{"-1.5", "-1.50"},
	{"-1"},
	{"-0.01", "-.01", "-1e-2", "-.010"},
	{"-1e-308"},
	{"0", "-0", "+0", "0.00", ".0", "0.", "0e5", "-0e-5", "000"},
	{"1e-308"},
	{"0.0000000000000000000000000000000000001"},
	{"0.01"},
	{"0.1", ".1", "00.10", "1e-1"},
	{"1", "+1", "1.", "1.0", "0.1e1", "10e-1", "1e0", "1E+000"},
	{"1.05"},
	{"1.5", "1.50", "15e-1", "+1.5"},
	{"9"},
	{"9.99"},
	{"10"},
	{"12.5"},
	{"9007199254740992"}, // 2 to the power of 53
	{"9007199254740993"},
	{"9007199254740993.1"},
	{"1e308", "10e307"},
	{"9" + strings.Repeat("0", 308)},
}

func TestDecimalComparesNumbers(t *testing.T) {
	t.Parallel()
	for i, some := range numbers {
		for j, others := range numbers {
			for _, a := range some {
				for _, b := range others {
					want := 0
					switch {
					case i < j:
						want = -1
					case i > j:
						want = 1
					}
					assert.Equal(t, want, api.Decimal(a).Compare(api.Decimal(b)), "%q and %q", a, b)
				}
			}
		}
	}
	prices := []api.Decimal{"10", "", "9.99", "-1", "0"}
	slices.SortFunc(prices, api.Decimal.Compare)
	assert.Equal(t, []api.Decimal{"", "-1", "0", "9.99", "10"}, prices)
}

func TestDecimalIsZeroForNullOnly(t *testing.T) {
	t.Parallel()
	assert.True(t, api.Decimal("").IsZero())
	assert.False(t, api.Decimal("0").IsZero())
	encoded, err := json.Marshal(struct {
		Null api.Decimal `json:"null,omitzero"`
		Zero api.Decimal `json:"zero,omitzero"`
	}{Zero: "0.00"})
	require.NoError(t, err)
	assert.JSONEq(t, `{"zero":"0.00"}`, string(encoded))
}

func TestDecimalRatIsExact(t *testing.T) {
	t.Parallel()
	assert.Equal(t, big.NewRat(-25, 2), api.Decimal("-12.50").Rat())
	assert.Equal(t, big.NewRat(1000, 1), api.Decimal("1e3").Rat())
	assert.Equal(t, big.NewRat(10, 1), api.Decimal("010").Rat(), "a leading 0 must not mean octal")
	assert.Nil(t, api.Decimal("").Rat())
	assert.Nil(t, api.Decimal("1/3").Rat())
}

func TestDecimalRejectsOtherText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"canary", "12,50", "$12.50", " 1", "1 ", "1_000", "0x1F", "Inf", "NaN", "1/3", "--1", "+-1", "1.2.3", ".", "-", "e5", "1e", "1e+", "1e5.0", "1e309", "1e-309", "1e99999999999999999999", "٣",
	} {
		_, err := api.ParseDecimal(text)
		requireArgument(t, err, "canary")
		assert.EqualError(t, err, "dispensary: decimal is not a number such as 12.50", text)
		d := api.Decimal("1")
		require.ErrorIs(t, d.UnmarshalText([]byte(text)), api.ErrArgument)
		require.ErrorIs(t, d.Scan(text), api.ErrArgument)
		require.ErrorIs(t, d.Scan([]byte(text)), api.ErrArgument)
		assert.Equal(t, api.Decimal("1"), d, "a failed parse must not change the value")
		_, inText := api.Decimal(text).MarshalText()
		_, document := api.Decimal(text).MarshalJSON()
		_, column := api.Decimal(text).Value()
		for _, err := range []error{inText, document, column} {
			requireArgument(t, err, "canary")
		}
	}
	_, err := api.ParseDecimal("")
	require.ErrorIs(t, err, api.ErrArgument)
	for _, source := range []any{47.11, true} {
		requireArgument(t, new(api.Decimal).Scan(source), "47")
	}
}

func TestDecimalReadsAndWritesColumns(t *testing.T) {
	t.Parallel()
	for source, want := range map[any]api.Decimal{nil: "", "": "", "12.50": "12.50", "1e3": "1e3", int64(-12): "-12"} {
		got := api.Decimal("1")
		require.NoError(t, got.Scan(source), source)
		assert.Equal(t, want, got)
	}
	buffer := []byte("12.50")
	var got api.Decimal
	require.NoError(t, got.Scan(buffer))
	copy(buffer, "99.99") // drivers reuse the buffer
	assert.Equal(t, api.Decimal("12.50"), got)
	value, err := got.Value()
	require.NoError(t, err)
	assert.Equal(t, "12.50", value)
	value, err = api.Decimal("").Value()
	require.NoError(t, err)
	assert.Nil(t, value)
}

func TestDecimalWorksInFlagsAndKeys(t *testing.T) {
	t.Parallel()
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var limit api.Decimal
	flags.TextVar(&limit, "limit", api.Decimal("9.99"), "")
	assert.Equal(t, api.Decimal("9.99"), limit)
	require.NoError(t, flags.Parse([]string{"--limit", "12.50"}))
	assert.Equal(t, api.Decimal("12.50"), limit)
	require.Error(t, flags.Parse([]string{"--limit", "much"}))

	encoded, err := json.Marshal(map[api.Decimal]int{limit: 1})
	require.NoError(t, err)
	assert.JSONEq(t, `{"12.50":1}`, string(encoded))
	var decoded map[api.Decimal]int
	require.NoError(t, json.Unmarshal(encoded, &decoded))
	assert.Equal(t, map[api.Decimal]int{limit: 1}, decoded)
}

// FuzzDecimal compares Decimal with math/big, which accepts more forms.
func FuzzDecimal(f *testing.F) {
	for i, some := range numbers {
		for _, text := range some {
			f.Add(text, numbers[(i+1)%len(numbers)][0])
			f.Add(text, some[0])
		}
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		first, err := api.ParseDecimal(a)
		if err != nil {
			require.ErrorIs(t, err, api.ErrArgument)
			require.Equal(t, "dispensary: decimal is not a number such as 12.50", err.Error())
			require.Empty(t, first)
			require.Nil(t, api.Decimal(a).Rat())
			require.LessOrEqual(t, api.Decimal(a).Compare(api.Decimal(b)), 0, "not a number")
			return
		}
		require.Equal(t, a, first.String())
		require.Equal(t, first, written(t, first))
		x, known := new(big.Rat).SetString(a)
		require.True(t, known)
		require.Equal(t, x, first.Rat())
		second, err := api.ParseDecimal(b)
		if err != nil {
			require.Equal(t, 1, first.Compare(api.Decimal(b)))
			return
		}
		require.Equal(t, x.Cmp(second.Rat()), first.Compare(second))
		require.Equal(t, -first.Compare(second), second.Compare(first))
	})
}

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
