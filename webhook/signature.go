package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

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
