package seal_test

import (
	"errors"
	"fmt"

	"github.com/dispensary-go/dispensary/seal"
)

// A ring with the keys of two years decrypts all values and recognizes those with the old key.
func ExampleKeyRing() {
	lastYear, _ := seal.GenerateKey("2026")
	thisYear, _ := seal.GenerateKey("2027")

	before, _ := seal.NewKeyRing(lastYear)
	sealed, _ := before.Encrypt([]byte("a secret"), []byte("user-17"))

	ring, _ := seal.NewKeyRing(thisYear, lastYear)
	opened, err := ring.Decrypt(sealed, []byte("user-17"))
	fmt.Println(string(opened), err, ring.Stale(sealed))

	_, err = ring.Decrypt(sealed, []byte("user-18"))
	fmt.Println(errors.Is(err, seal.ErrTampered))
	fmt.Println(ring)
	// Output:
	// a secret <nil> true
	// true
	// seal.KeyRing{2027* 2026}
}
