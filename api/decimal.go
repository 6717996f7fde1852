package api

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Decimal is an exact decimal number, kept as the platform wrote it: money and
// percentages must not pass through a float. The zero value is the empty
// string, which stands for null. It is read from a string or a number and
// written as a string.
// API section: "Variant" (msrp), "Order" (totals).
type Decimal string

// UnmarshalJSON reads "12.50", 12.50, "" and null, and the exponent that a JSON number may
// have. A number that is infinite as a float is an error.
func (d *Decimal) UnmarshalJSON(data []byte) error {
	characters, null := scalarText(data)
	if null {
		*d = ""
		return nil
	}
	text := string(characters)
	if !isDecimal(text) {
		return errors.New("not a decimal number")
	}
	if len(text) > 300 || strings.IndexByte(text, 'e') >= 0 || strings.IndexByte(text, 'E') >= 0 {
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return errors.New("not a finite number")
		}
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

// isDecimal accepts an optional sign, digits with at most one point, and the exponent
// that JSON numbers may carry: what strconv.ParseFloat reads, without hexadecimal,
// "inf" and underscores.
func isDecimal(s string) bool {
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
func signLen(s string, i int) int {
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		return 1
	}
	return 0
}

// digitsLen returns how many digits there are at i.
func digitsLen(s string, i int) int {
	n := 0
	for i+n < len(s) && s[i+n] >= '0' && s[i+n] <= '9' {
		n++
	}
	return n
}
