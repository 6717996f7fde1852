package model

import (
	"fmt"
	"strconv"
	"strings"
)

// WorldSize is how much there is of everything. What the default world has more of
// stays; 0 adds nothing.
type WorldSize struct {
	Clinics  int
	Patients int // of all clinics together, as everything below
	Products int
	Plans    int
	Orders   int
}

// Cents is an amount of money in hundredths of the region's currency. The API
// writes it as a decimal string: Cents(3499) is "34.99".
type Cents int64

// String writes the amount as the API does, with two decimals.
func (c Cents) String() string {
	sign, n := "", int64(c)
	if n < 0 {
		sign, n = "-", -n
	}
	whole, rest := strconv.FormatInt(n/100, 10), strconv.FormatInt(100+n%100, 10)
	return sign + whole + "." + rest[1:]
}

// MarshalText makes the amount a decimal string in JSON.
func (c Cents) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads what MarshalText wrote.
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
