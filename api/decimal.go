package api

import (
	"bytes"
	"cmp"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Decimal is an exact decimal number as the platform wrote it. Money and percentages must not
// pass through a float. The zero value is the empty string and stands for null and SQL NULL.
//
// The text has an optional sign, digits with at most one point, and an optional exponent from
// -308 to 308, for example 12.50, -3, .5 and 1e3. A constant converts to a Decimal. Read other
// text with [ParseDecimal]. Compare numbers with [Decimal.Compare], because == compares texts:
// 1.50 and 1.5 are one number. Calculate with [Decimal.Rat].
// API section: "Variant" (msrp), "Order" (totals).
type Decimal string

// ParseDecimal returns text as an unchanged Decimal. For a text that is not a number,
// including the empty one, it returns an [*ArgumentError] for "decimal" without the text.
func ParseDecimal(text string) (Decimal, error) {
	if !isDecimal(text) {
		return "", notDecimal()
	}
	return Decimal(text), nil
}

func notDecimal() error {
	return &ArgumentError{Field: "decimal", Reason: "is not a number such as 12.50"}
}

// IsZero reports whether d is the zero value, which stands for null. It is false for the
// number 0: use d.Compare("0").
func (d Decimal) IsZero() bool { return d == "" }

// Compare returns -1 if d is less than e, 0 if they are equal and +1 if d is greater than e.
// It is exact. Null, and a converted text that is not a number, is less than every number.
func (d Decimal) Compare(e Decimal) int {
	a, b := d.value(), e.value()
	if a.sign != b.sign {
		return cmp.Compare(a.sign, b.sign)
	}
	magnitudes := cmp.Or(cmp.Compare(a.point, b.point), strings.Compare(a.digits, b.digits))
	if a.sign < 0 {
		return -magnitudes
	}
	return magnitudes
}

// Rat returns the exact number for calculations. It returns nil for null and for a converted
// text that is not a number. Convert a result r back with Decimal(r.FloatString(2)).
func (d Decimal) Rat() *big.Rat {
	if !isDecimal(string(d)) {
		return nil
	}
	r, _ := new(big.Rat).SetString(string(d)) // reads more forms than isDecimal accepts
	return r
}

// String returns the number as the platform wrote it, or "" for null.
func (d Decimal) String() string { return string(d) }

// UnmarshalJSON reads "12.50", 12.50, "" and null.
func (d *Decimal) UnmarshalJSON(data []byte) error {
	characters, null := scalarText(data)
	if null {
		*d = ""
		return nil
	}
	text := string(characters)
	if !isDecimal(text) {
		return errors.New("not a decimal number") // no ArgumentError, because the platform wrote it
	}
	*d = Decimal(text)
	return nil
}

// MarshalJSON writes a string, or null for the zero value. If the text is not a number, the
// error is an [*ArgumentError].
func (d Decimal) MarshalJSON() ([]byte, error) {
	return jsonOf(d.MarshalText())
}

// UnmarshalText reads the text as [ParseDecimal] does. The empty text is null. YAML, flags and
// map keys use it.
func (d *Decimal) UnmarshalText(text []byte) error {
	return parseText(d, text, ParseDecimal)
}

// MarshalText writes the number unchanged, or the empty text for null. If the text is not a
// number, the error is an [*ArgumentError].
func (d Decimal) MarshalText() ([]byte, error) {
	if d != "" && !isDecimal(string(d)) {
		return nil, notDecimal()
	}
	return []byte(d), nil
}

// Scan implements [database/sql.Scanner] for a column of type DECIMAL, NUMERIC, TEXT or an
// integer. NULL and the empty text are null. The error is an [*ArgumentError]. Scan rejects
// floats, because they are not exact. SQLite stores a NUMERIC column as a float, so use TEXT
// there.
func (d *Decimal) Scan(source any) error {
	switch source := source.(type) {
	case nil:
		*d = ""
		return nil
	case string:
		return d.UnmarshalText([]byte(source))
	case []byte:
		return d.UnmarshalText(source)
	case int64:
		*d = Decimal(strconv.FormatInt(source, 10))
		return nil
	}
	return &ArgumentError{Field: "decimal", Reason: fmt.Sprintf("cannot be read from %T: use a DECIMAL or TEXT column", source)}
}

// Value implements [driver.Valuer]. It returns the text for a column, or nil for null. If the
// text is not a number, the error is an [*ArgumentError]. Some drivers add the text to it.
func (d Decimal) Value() (driver.Value, error) {
	return columnOf(d.MarshalText())
}

// maxExponent bounds the exponent of a Decimal, so that a short text cannot stand for a very
// long number.
const maxExponent = 308

// isDecimal reports whether s is the text of a number as [Decimal] describes it.
func isDecimal(s string) bool {
	i := signLen(s, 0)
	integer := digitsLen(s, i)
	i += integer
	fraction := 0
	if i < len(s) && s[i] == '.' {
		fraction = digitsLen(s, i+1)
		i += 1 + fraction
	}
	if integer+fraction == 0 {
		return false
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		exponent, err := strconv.Atoi(s[i+1:])
		return err == nil && -maxExponent <= exponent && exponent <= maxExponent
	}
	return i == len(s)
}

// decimalValue is a number: sign times 0.digits times 10 to the power of point. The digits
// neither begin nor end with 0. For the number 0, digits is empty and point is 0.
type decimalValue struct {
	sign   int // notNumber for null
	digits string
	point  int
}

// notNumber is less than the signs of numbers.
const notNumber = -2

// value returns d as a number. Equal numbers have equal values.
func (d Decimal) value() decimalValue {
	text := string(d)
	if !isDecimal(text) {
		return decimalValue{sign: notNumber}
	}
	sign := 1
	if text[0] == '-' {
		sign = -1
	}
	text = text[signLen(text, 0):]
	exponent := 0
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		exponent, _ = strconv.Atoi(text[at+1:])
		text = text[:at]
	}
	integer, fraction, _ := strings.Cut(text, ".")
	digits := strings.TrimLeft(integer+fraction, "0")
	if digits == "" {
		return decimalValue{}
	}
	point := len(digits) - len(fraction) + exponent
	return decimalValue{sign, strings.TrimRight(digits, "0"), point}
}

// signLen returns the length of the sign at i, 0 or 1.
func signLen(s string, i int) int {
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		return 1
	}
	return 0
}

// digitsLen returns the number of digits from i on.
func digitsLen(s string, i int) int {
	n := 0
	for i+n < len(s) && s[i+n] >= '0' && s[i+n] <= '9' {
		n++
	}
	return n
}

// scalarText returns the content of a JSON string, or the text of any other JSON value. null
// is true for null and the empty string.
func scalarText(data []byte) (text []byte, null bool) {
	switch {
	case string(data) == "null", string(data) == `""`:
		return nil, true
	case len(data) < 2 || data[0] != '"':
		return data, false
	case bytes.IndexByte(data, '\\') < 0:
		return data[1 : len(data)-1], false
	}
	var unescaped string
	_ = json.Unmarshal(data, &unescaped) // invalid text fails to parse later
	return []byte(unescaped), false
}

// jsonOf returns the result of MarshalText as a JSON string, or null for the empty text. The
// text needs no escapes.
func jsonOf(text []byte, err error) ([]byte, error) {
	switch {
	case err != nil:
		return nil, err
	case len(text) == 0:
		return []byte("null"), nil
	}
	return []byte(`"` + string(text) + `"`), nil
}

// columnOf returns the result of MarshalText as the value of a column. The empty text is NULL.
func columnOf(text []byte, err error) (driver.Value, error) {
	if err != nil || len(text) == 0 {
		return nil, err
	}
	return string(text), nil
}

// parseText parses text into to, which stays unchanged on failure. The empty text is the zero
// value.
func parseText[T any](to *T, text []byte, parse func(string) (T, error)) error {
	var parsed T
	if len(text) > 0 {
		var err error
		if parsed, err = parse(string(text)); err != nil {
			return err
		}
	}
	*to = parsed
	return nil
}
