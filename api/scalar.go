package api

import (
	"errors"
	"fmt"
	"strconv"
)

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

// unquote strips the quotes of a JSON string that has no escapes.
func unquote(data []byte) []byte {
	if len(data) >= 2 && data[0] == '"' && data[len(data)-1] == '"' {
		return data[1 : len(data)-1]
	}
	return data
}
