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
