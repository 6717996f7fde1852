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

// SignatureHeader is the name of the header that carries the signature.
// API section: "Signature header" 1.
const SignatureHeader = "SVC-Signature"

// Bounds of the header. The platform is assumed to send one v1, or two while a secret
// is rotated; everything beyond the bounds is refused before anything is computed.
const (
	maxHeader     = 1024 // bytes
	maxSignatures = 8    // v1 values
)

// maxTimestamp is how many digits a time in unix seconds has, until 2286.
// Assumption: the timestamp is in unix seconds; the API does not say.
const maxTimestamp = 10

var (
	errHeaderTooLong     = malformed("header is longer than %d bytes", maxHeader)
	errHeaderRepeated    = malformed("header is sent more than once")
	errNotAPair          = malformed("an element is not name=value")
	errTwoTimestamps     = malformed("t is given more than once")
	errNoTimestamp       = malformed("t is missing")
	errTimestampDigits   = malformed("t is not a whole number")
	errTimestampMillis   = malformed("t has 13 digits, which are milliseconds: unix seconds are expected")
	errTimestampLength   = malformed("t has more than the %d digits of unix seconds", maxTimestamp)
	errNoSignature       = malformed("v1 is missing")
	errTooManySignatures = malformed("more than %d v1 values", maxSignatures)
	errSignatureHex      = malformed("v1 is not 64 hex digits")
)

// malformed makes the errors above: once, so that refusing costs nothing.
func malformed(reason string, args ...any) error {
	return fmt.Errorf("%w: "+reason, append([]any{ErrSignatureMalformed}, args...)...)
}

// signature is what a header says.
type signature struct {
	timestamp string // as received: this text is what was signed
	at        time.Time
	values    [maxSignatures][sha256.Size]byte
	count     int
}

// parseHeader reads the signature header of a request. A request that has
// several is refused: which of them was verified would be undefined.
func (s *signature) parseHeader(h http.Header) error {
	switch values := h.Values(SignatureHeader); len(values) {
	case 0:
		return ErrSignatureMissing
	case 1:
		return s.parse(values[0])
	}
	return errHeaderRepeated
}

// parse reads a header of the form t=<unix seconds>,v1=<hex>. It is strict about
// everything that is signed or compared. Three liberties are safe, because they
// touch neither: white space around an element and empty elements, both of which HTTP
// allows in lists, and upper-case hex digits. Elements of other schemes are ignored, as
// the format is made to be extended.
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
		seconds = seconds*10 + int64(c-'0') // wraps only where the length is refused below
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

// Sign returns the value of the signature header that the platform sends with a body at a
// moment. It is for tests, and for programs that hand events on to a receiver of webhooks.
// API section: "Signature header" 1, 2.
func Sign(secret api.Secret, at time.Time, body []byte) string {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret.Reveal()))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return "t=" + timestamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
