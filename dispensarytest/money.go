package dispensarytest

import "strconv"

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

// less takes a percentage off, rounded to the cent.
func (c Cents) less(percent float64) Cents {
	return c - Cents(float64(c)*percent/100+0.5)
}
