package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Bool is a boolean that is also read from 0 and 1 and from their and its own
// quoted forms; null and "" read as false. It is written as a JSON boolean.
// API section: "Patient" (text_message_notification), "Treatment plan" (refill).
type Bool bool

// UnmarshalJSON reads true, false, 1, 0, null and the same in quotes.
func (b *Bool) UnmarshalJSON(data []byte) error {
	switch string(unquote(data)) {
	case "true", "1", "True", "TRUE":
		*b = true
	case "false", "0", "null", "", "False", "FALSE":
		*b = false
	default:
		return errors.New("not a boolean")
	}
	return nil
}

// Int is a whole number that is also read from a quoted one and from a number
// with a zero fraction; null and "" read as 0. It is written as a JSON number.
// API section: "Treatment plan" (units_to_purchase).
type Int int

// UnmarshalJSON reads 10, 10.0, "10" and null.
func (i *Int) UnmarshalJSON(data []byte) error {
	text := string(unquote(data))
	if text == "" || text == "null" {
		*i = 0
		return nil
	}
	if n, err := strconv.Atoi(text); err == nil {
		*i = Int(n)
		return nil
	}
	f, err := strconv.ParseFloat(text, 64)
	// Beyond 2^53 neighbouring integers are the same float.
	if err != nil || f != float64(int64(f)) || f > 1<<53 || f < -(1<<53) {
		return errors.New("not a whole number")
	}
	*i = Int(f)
	return nil
}

// Percent is a percentage: 10 is ten percent. It is also read from a quoted
// number; null and "" read as 0. It is written as a JSON number.
// API section: "Clinic" and "Patient" (discount, total_discount).
type Percent float64

// UnmarshalJSON reads 10, 12.5, "12.5" and null.
func (p *Percent) UnmarshalJSON(data []byte) error {
	var d Decimal
	if err := d.UnmarshalJSON(data); err != nil {
		return err
	}
	*p = Percent(d.Float64())
	return nil
}

// Text is a string that is also read from a number or a boolean, as its
// characters on the wire; null reads as "". It is written as a JSON string.
// API section: "Treatment plan" (dosage).
type Text string

// UnmarshalJSON reads a string, a number, a boolean or null.
func (t *Text) UnmarshalJSON(data []byte) error {
	switch {
	case isPlainString(data):
		*t = Text(data[1 : len(data)-1])
	case len(data) > 0 && data[0] == '"':
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		*t = Text(s)
	case bytes.Equal(data, []byte("null")):
		*t = ""
	case len(data) > 0 && (data[0] == '{' || data[0] == '['):
		return errors.New("not a text")
	default:
		*t = Text(data)
	}
	return nil
}

// Decimal is an exact decimal number, kept as the platform wrote it: money and
// percentages must not pass through a float. The zero value is the empty
// string, which stands for null. It is read from a string or a number and
// written as a string.
// API section: "Variant" (msrp), "Order" (totals).
type Decimal string

// ParseDecimal checks that s is a plain decimal number: digits with an optional
// sign and fraction.
func ParseDecimal(s string) (Decimal, error) {
	if !isDecimal(s) {
		return "", errors.New("dispensary: not a decimal number")
	}
	return Decimal(s), nil
}

// UnmarshalJSON reads "12.50", 12.50 and null.
func (d *Decimal) UnmarshalJSON(data []byte) error {
	text := unquote(data)
	if len(text) == 0 || string(text) == "null" {
		*d = ""
		return nil
	}
	if !isDecimal(text) {
		return errors.New("not a decimal number")
	}
	*d = Decimal(text)
	return nil
}

// MarshalJSON writes a string, or null for the zero value.
func (d Decimal) MarshalJSON() ([]byte, error) {
	if d == "" {
		return []byte("null"), nil
	}
	if !isDecimal(string(d)) {
		return nil, fmt.Errorf("dispensary: Decimal holds no decimal number")
	}
	return strconv.AppendQuote(nil, string(d)), nil
}

// String returns the number as the platform wrote it, or "".
func (d Decimal) String() string { return string(d) }

// Float64 returns the nearest float, for display and rough comparison; 0 for
// the zero value.
func (d Decimal) Float64() float64 {
	f, _ := strconv.ParseFloat(string(d), 64)
	return f
}

// isDecimal accepts an optional sign, digits with at most one point, and the exponent
// that JSON numbers may carry: what strconv.ParseFloat reads, without hexadecimal,
// "inf" and underscores.
func isDecimal[T string | []byte](s T) bool {
	i := signLen(s, 0)
	whole := digitsLen(s, i)
	i += whole
	fraction := 0
	if i < len(s) && s[i] == '.' {
		fraction = digitsLen(s, i+1)
		i += 1 + fraction
	}
	if whole+fraction == 0 {
		return false
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		i += 1 + signLen(s, i+1)
		exponent := digitsLen(s, i)
		i += exponent
		if exponent == 0 {
			return false
		}
	}
	return i == len(s)
}

// signLen returns the length of the sign at i, 0 or 1.
func signLen[T string | []byte](s T, i int) int {
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		return 1
	}
	return 0
}

// digitsLen returns how many digits there are at i.
func digitsLen[T string | []byte](s T, i int) int {
	n := 0
	for i+n < len(s) && s[i+n] >= '0' && s[i+n] <= '9' {
		n++
	}
	return n
}

// isPlainString reports a JSON string of ASCII without escapes: its characters are
// those on the wire. Decoding any other takes five times as long.
func isPlainString(data []byte) bool {
	if len(data) < 2 || data[0] != '"' {
		return false
	}
	for _, c := range data {
		if c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// unquote strips the quotes of a JSON string that has no escapes.
func unquote(data []byte) []byte {
	if len(data) >= 2 && data[0] == '"' && data[len(data)-1] == '"' {
		return data[1 : len(data)-1]
	}
	return data
}
