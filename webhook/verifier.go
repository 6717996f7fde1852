package webhook

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// DefaultTolerance is how far a signature's timestamp may be from now, in either
// direction, if nothing else is said.
// API section: "Signature header" 4, which recommends it.
const DefaultTolerance = 5 * time.Minute

// VerifierConfig is what a [Verifier] is made of.
type VerifierConfig struct {
	// Secrets are the webhook secret keys that a signature may be made with:
	// one, or while it is rotated the new and the old one. At least one, none
	// of them empty.
	Secrets []api.Secret

	// Tolerance is how far the timestamp may be from now in either direction;
	// 0 means [DefaultTolerance]. It cannot be switched off.
	Tolerance time.Duration

	// Now is the clock; nil means [time.Now].
	Now func() time.Time
}

// Verifier checks that a body was signed by the platform, and recently. It is
// for programs that cannot mount a [Handler]. It is safe for concurrent use.
// API section: "Signature header".
type Verifier struct {
	keys      []*key
	tolerance time.Duration
	now       func() time.Time
}

// NewVerifier returns a verifier. It fails, with an [*api.ArgumentError] for each
// problem, without secrets, with one that is empty or has white space at an end, as a
// line break that comes along from a file is, and with a negative tolerance.
func NewVerifier(c VerifierConfig) (*Verifier, error) { return newVerifier("VerifierConfig", c) }

// newVerifier names the fields of the given type in its errors.
func newVerifier(config string, c VerifierConfig) (*Verifier, error) {
	v := &Verifier{tolerance: cmp.Or(c.Tolerance, DefaultTolerance), now: c.Now}
	var problems []error
	if len(c.Secrets) == 0 {
		problems = append(problems, argumentError(config+".Secrets", "is empty: without a secret every request could be forged"))
	}
	for i, secret := range c.Secrets {
		if problem := problemOf(secret); problem != "" {
			problems = append(problems, argumentError(fmt.Sprintf("%s.Secrets[%d]", config, i), problem))
			continue
		}
		v.keys = append(v.keys, newKey(secret))
	}
	if c.Tolerance < 0 {
		problems = append(problems, argumentError(config+".Tolerance", "is negative"))
	}
	if v.now == nil {
		v.now = time.Now
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return v, nil
}

// problemOf says why a secret or token cannot be the platform's; empty if it can.
func problemOf(secret api.Secret) string {
	switch {
	case secret.IsZero():
		return "is empty"
	case strings.TrimSpace(secret.Reveal()) != secret.Reveal():
		return "begins or ends with white space"
	}
	return ""
}

// Verify checks the value of the SVC-Signature header against the body exactly
// as it was received: decoding it and encoding it again changes it.
//
// The error matches [ErrSignatureMissing], [ErrSignatureMalformed],
// [ErrTimestampTooOld], [ErrTimestampTooNew] or [ErrSignatureMismatch]; do not
// tell the caller which.
func (v *Verifier) Verify(header string, body []byte) error {
	var s signature
	if err := s.parse(header); err != nil {
		return err
	}
	if err := s.fresh(v.now(), v.tolerance); err != nil {
		return err
	}
	return v.match(&s, body)
}

// Format prints the type only: the verifier holds secrets.
func (v *Verifier) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "webhook.Verifier") }

// match compares every signature of the header with that of every secret. The
// time it takes depends on how many there are, and not on what they hold.
func (v *Verifier) match(s *signature, body []byte) error {
	matches := 0
	for _, k := range v.keys {
		m := k.acquire()
		want := m.sum(s.timestamp, body)
		for i := range s.count {
			matches |= subtle.ConstantTimeCompare(want, s.values[i][:])
		}
		k.pool.Put(m)
	}
	if matches == 0 {
		return ErrSignatureMismatch
	}
	return nil
}

// key makes signatures with one secret. Preparing an HMAC for its secret costs
// about as much as hashing 128 bytes, and several allocations; the pool keeps
// prepared ones.
type key struct{ pool sync.Pool }

func newKey(secret api.Secret) *key {
	k := &key{}
	k.pool.New = func() any { return &mac{hash: hmac.New(sha256.New, []byte(secret.Reveal()))} }
	return k
}

func (k *key) acquire() *mac { return k.pool.Get().(*mac) }

// mac is an HMAC prepared for a secret, with the memory that it works in.
type mac struct {
	hash   hash.Hash
	prefix [maxTimestamp + 1]byte
	result [sha256.Size]byte
}

// sum signs <timestamp>.<body>. The result is valid until the next call.
func (m *mac) sum(timestamp string, body []byte) []byte {
	m.hash.Reset()
	n := copy(m.prefix[:], timestamp)
	m.prefix[n] = '.'
	m.hash.Write(m.prefix[:n+1])
	m.hash.Write(body)
	return m.hash.Sum(m.result[:0])
}
