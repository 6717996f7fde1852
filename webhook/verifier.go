package webhook

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
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

// SignatureHeader is the name of the request header with the signature.
// API section: "Signature header" 1.
const SignatureHeader = "SVC-Signature"

// canonicalHeader is the key of the header in [http.Header].
var canonicalHeader = http.CanonicalHeaderKey(SignatureHeader)

// Bounds of the header. A header beyond them is rejected before any computation.
// Assumption: the platform sends one v1, or two during the rotation of a secret.
const (
	maxHeader     = 1024 // bytes
	maxSignatures = 8    // v1 values
)

// maxTimestamp is the number of digits of a time in unix seconds, until the year 2286.
// Assumption: the timestamp is in unix seconds. The API does not state the unit.
const maxTimestamp = 10

var (
	errHeaderTooLong     = malformed("header is longer than %d bytes", maxHeader)
	errHeaderRepeated    = malformed("header is sent more than once")
	errNotAPair          = malformed("an element is not name=value")
	errTwoTimestamps     = malformed("t is repeated")
	errNoTimestamp       = malformed("t is missing")
	errTimestampDigits   = malformed("t is not a whole number")
	errTimestampMillis   = malformed("t has 13 digits, as in milliseconds: unix seconds are expected")
	errTimestampLength   = malformed("t has more than the %d digits of unix seconds", maxTimestamp)
	errNoSignature       = malformed("v1 is missing")
	errTooManySignatures = malformed("more than %d v1 values", maxSignatures)
	errSignatureHex      = malformed("v1 is not 64 hex digits")
)

// malformed returns an error that matches [ErrSignatureMalformed]. The errors above are created
// once, so that rejecting a request allocates no memory.
func malformed(reason string, args ...any) error {
	return fmt.Errorf("%w: "+reason, append([]any{ErrSignatureMalformed}, args...)...)
}

// signature is the content of a signature header.
type signature struct {
	timestamp string // as received, because this text was signed
	at        time.Time
	values    [maxSignatures][sha256.Size]byte
	count     int
}

// parseHeader parses the signature header of a request. It rejects several headers, because it
// would be undefined which one was verified.
func (s *signature) parseHeader(h http.Header) error {
	switch values := h[canonicalHeader]; len(values) {
	case 0:
		return ErrSignatureMissing
	case 1:
		return s.parse(values[0])
	}
	return errHeaderRepeated
}

// parse parses a header of the form t=<unix seconds>,v1=<hex>. It is strict about all signed or
// compared bytes. It allows three deviations that change none of these: white space around an
// element, empty elements (HTTP allows both in lists), and upper-case hex digits. It ignores
// elements of other schemes, because the format is meant to be extended.
func (s *signature) parse(header string) error {
	if header == "" {
		return ErrSignatureMissing
	}
	if len(header) > maxHeader {
		return errHeaderTooLong
	}
	for rest, more := header, true; more; {
		var element string
		element, rest, more = strings.Cut(rest, ",")
		element = strings.Trim(element, " \t")
		if element == "" {
			continue
		}
		name, value, ok := strings.Cut(element, "=")
		if !ok || name == "" {
			return errNotAPair
		}
		if err := s.element(name, value); err != nil {
			return err
		}
	}
	switch {
	case s.timestamp == "":
		return errNoTimestamp
	case s.count == 0:
		return errNoSignature
	}
	return nil
}

func (s *signature) element(name, value string) error {
	switch name {
	case "t":
		if s.timestamp != "" {
			return errTwoTimestamps
		}
		return s.setTimestamp(value)
	case "v1":
		if s.count == maxSignatures {
			return errTooManySignatures
		}
		if len(value) != hex.EncodedLen(sha256.Size) {
			return errSignatureHex
		}
		if _, err := hex.Decode(s.values[s.count][:], []byte(value)); err != nil {
			return errSignatureHex
		}
		s.count++
	}
	return nil
}

func (s *signature) setTimestamp(value string) error {
	var seconds int64
	for _, c := range []byte(value) {
		if c < '0' || c > '9' {
			return errTimestampDigits
		}
		seconds = seconds*10 + int64(c-'0') // overflows only for lengths that are rejected below
	}
	switch n := len(value); {
	case n == 0:
		return errTimestampDigits
	case n == 13:
		return errTimestampMillis
	case n > maxTimestamp:
		return errTimestampLength
	}
	s.timestamp = value
	s.at = time.Unix(seconds, 0)
	return nil
}

// fresh checks the timestamp against the clock, in both directions.
func (s *signature) fresh(now time.Time, tolerance time.Duration) error {
	switch age := now.Sub(s.at); {
	case age > tolerance:
		return ErrTimestampTooOld
	case age < -tolerance:
		return ErrTimestampTooNew
	}
	return nil
}

// Sign returns the value of the signature header that the platform would send with body at the
// time at. Use it in tests, and in programs that forward events to a webhook endpoint.
// API section: "Signature header" 1, 2.
func Sign(secret api.Secret, at time.Time, body []byte) string {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret.Reveal()))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return "t=" + timestamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
