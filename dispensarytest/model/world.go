package model

import (
	"fmt"
	"strconv"
	"strings"
)

// WorldSize is the minimum number of objects of each kind. Objects of the default world stay
// if they exceed it, and 0 adds none.
type WorldSize struct {
	Clinics  int
	Patients int // of all clinics together, like the fields below
	Products int
	Plans    int
	Orders   int
}

// Cents is an amount of money in hundredths of the region's currency. The API writes it as a
// decimal string: Cents(3499) is "34.99".
type Cents int64

// String returns the amount in the API's format, with two decimals.
func (c Cents) String() string {
	sign, n := "", int64(c)
	if n < 0 {
		sign, n = "-", -n
	}
	whole, rest := strconv.FormatInt(n/100, 10), strconv.FormatInt(100+n%100, 10)
	return sign + whole + "." + rest[1:]
}

// MarshalText encodes the amount as a decimal string.
func (c Cents) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText parses the format of [Cents.MarshalText].
func (c *Cents) UnmarshalText(text []byte) error {
	digits, negative := strings.CutPrefix(string(text), "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	n, err := strconv.ParseInt(whole+fraction, 10, 64)
	if err != nil || n < 0 || len(fraction) != 2 {
		return fmt.Errorf("dispensarytest: %q is not an amount", text)
	}
	if *c = Cents(n); negative {
		*c = -*c
	}
	return nil
}
