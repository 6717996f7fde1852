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
	"github.com/dispensary-go/dispensary/internal/defaults"
)

// VerifierConfig configures a [Verifier]. Secrets is required.
type VerifierConfig struct {
	// Secrets are the webhook secret keys: one, or the new and the old key during a rotation.
	Secrets []api.Secret

	// Tolerance is the largest difference between the timestamp and now, in either direction.
	// 0 means 5 minutes.
	Tolerance time.Duration

	// Now is the clock. Nil means [time.Now].
	Now func() time.Time
}

// Verifier checks the signature of a body, for programs that cannot mount a [Handler]. It is safe
// for concurrent use.
// API section: "Signature header".
type Verifier struct {
	keys      []*key
	tolerance time.Duration
	now       func() time.Time
}

// NewVerifier returns a verifier. It fails with an [*api.ArgumentError] for each problem: no
// secret, an empty secret, a secret that begins or ends with white space (such as a line break from
// a file), or a negative tolerance.
func NewVerifier(c VerifierConfig) (*Verifier, error) { return newVerifier("VerifierConfig", c) }

// newVerifier implements [NewVerifier]. Its errors name the fields of config.
func newVerifier(config string, c VerifierConfig) (*Verifier, error) {
	v := &Verifier{tolerance: cmp.Or(c.Tolerance, defaults.SignatureTolerance), now: c.Now}
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

// problemOf returns the problem of a secret or token, or an empty string.
func problemOf(secret api.Secret) string {
	switch {
	case secret.IsZero():
		return "is empty"
	case strings.TrimSpace(secret.Reveal()) != secret.Reveal():
		return "begins or ends with white space"
	}
	return ""
}

// Verify checks the value of the SVC-Signature header against the body. Pass the exact bytes of the
// request, and do not encode the body again.
//
// The error matches [ErrSignatureMissing], [ErrSignatureMalformed], [ErrTimestampTooOld],
// [ErrTimestampTooNew] or [ErrSignatureMismatch]. Do not show it to the caller.
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

// Format prints only the type, because the verifier contains secrets.
func (v *Verifier) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "webhook.Verifier") }

// match compares each signature in the header with the signature of each secret, in constant time.
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

// key signs with one secret. The pool keeps prepared HMACs, because preparing an HMAC costs several
// allocations and about as much as hashing 128 bytes.
type key struct{ pool sync.Pool }

func newKey(secret api.Secret) *key {
	k := &key{}
	k.pool.New = func() any { return &mac{hash: hmac.New(sha256.New, []byte(secret.Reveal()))} }
	return k
}

func (k *key) acquire() *mac { return k.pool.Get().(*mac) }

// mac is an HMAC prepared for a secret, with its buffers.
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
