// Package diagnose explains why the signature of a saved delivery is rejected: another secret,
// a wrong clock, or a changed body, including the kind of change. It works offline.
//
//	delivery, err := diagnose.Parse(saved) // a whole HTTP request
//	report, err := diagnose.Check(delivery, diagnose.Config{Secrets: secrets, ReceivedAt: receivedAt})
//	fmt.Println(report.Reason, report.Detail)
//
// Use it to find a fault, or in tests of a proxy in front of a receiver. The receiver itself
// needs [webhook.Handler] or [webhook.Verifier]: they reveal less about a rejected request.
package diagnose

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/webhook"
)

// Delivery is a saved webhook request.
type Delivery struct {
	Header http.Header
	Body   []byte

	// Announced is the length in Content-Length, in bytes. It is -1 if the header is missing or
	// invalid.
	Announced int
}

// errHead is returned for each unreadable request, without its text, which may be private.
var errHead = errors.New("diagnose: not an HTTP request: needs a request line, headers and an empty line before the body")

// Parse reads a whole HTTP request: request line, headers, an empty line, and the rest as the
// body. A line may end in LF without CR, as editors save it. Parse decodes a chunked body.
func Parse(saved []byte) (Delivery, error) {
	line, rest, _ := bytes.Cut(saved, []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) != 3 || !strings.HasPrefix(words[2], "HTTP/") {
		return Delivery{}, errHead
	}
	end := len(rest)
	var body []byte
	for _, empty := range []string{"\r\n\r\n", "\n\n"} {
		if at := bytes.Index(rest, []byte(empty)); at >= 0 && at < end {
			end, body = at, rest[at+len(empty):]
		}
	}
	if body == nil {
		return Delivery{}, errHead
	}
	d, err := ParseParts(rest[:end], body)
	if err != nil {
		return Delivery{}, err
	}
	if d.Header.Get("Transfer-Encoding") == "chunked" {
		request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(saved)))
		if err == nil {
			d.Body, err = io.ReadAll(request.Body)
		}
		if err != nil {
			return Delivery{}, errors.New("diagnose: invalid chunked body")
		}
	}
	return d, nil
}

// ParseParts returns the delivery with this body. It reads the headers from lines of the form
// "Name: value".
func ParseParts(headers, body []byte) (Delivery, error) {
	text := append(bytes.TrimSpace(bytes.Clone(headers)), "\r\n\r\n"...)
	header, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(text))).ReadMIMEHeader()
	if err != nil {
		return Delivery{}, errors.New(`diagnose: headers must be lines of the form "Name: value"`)
	}
	d := Delivery{Header: http.Header(header), Body: body, Announced: -1}
	if n, err := strconv.Atoi(d.Header.Get("Content-Length")); err == nil && n >= 0 {
		d.Announced = n
	}
	return d, nil
}

// Reason is the result of a check in a form for programs.
type Reason string

// The reasons of a Report.
const (
	ReasonValid       Reason = "valid"        // the signature is valid
	ReasonNoSignature Reason = "no_signature" // the signature header is missing
	ReasonMalformed   Reason = "malformed"    // the header cannot be parsed, or occurs more than once
	ReasonTooOld      Reason = "too_old"      // the signature is correct but too old
	ReasonTooNew      Reason = "too_new"      // the signature is correct but its time is in the future
	ReasonBodyChanged Reason = "body_changed" // the secret is correct, but the body differs from the signed one
	ReasonChallenge   Reason = "challenge"    // the delivery was signed with Config.Challenge
	ReasonWrongSecret Reason = "wrong_secret" // no secret matches the body or a known change of the body
)

// Config contains the inputs of [Check]. Secrets are required.
type Config struct {
	// Secrets are the webhook secrets, as in [webhook.VerifierConfig].
	Secrets []api.Secret

	// Challenge is the challenge token. It reveals that secret and token were swapped. If it is
	// empty, Check skips that test.
	Challenge api.Secret

	// ReceivedAt is the time of arrival. Zero means now.
	ReceivedAt time.Time
}

// Report is the result of [Check]. It contains no part of the secrets or the body.
type Report struct {
	Reason Reason

	// Detail explains Reason in words.
	Detail string

	// SignedAt is the time in the signature. Age is the time from SignedAt to ReceivedAt,
	// negative if the signature is newer. Both are zero if there is no readable signature.
	SignedAt time.Time
	Age      time.Duration
}

// Check verifies a delivery. If it is rejected, Check determines the reason. It returns the
// errors of [webhook.NewVerifier].
func Check(d Delivery, c Config) (Report, error) {
	now := cmp.Or(c.ReceivedAt, time.Now())
	verifier, err := webhook.NewVerifier(webhook.VerifierConfig{Secrets: c.Secrets, Now: func() time.Time { return now }})
	if err != nil {
		return Report{}, err
	}
	headers := d.Header.Values(webhook.SignatureHeader)
	if len(headers) > 1 {
		return Report{Reason: ReasonMalformed, Detail: "the header " + webhook.SignatureHeader + " occurs more than once"}, nil
	}
	header := d.Header.Get(webhook.SignatureHeader)
	err = verifier.Verify(header, d.Body)
	switch {
	case errors.Is(err, webhook.ErrSignatureMissing):
		return Report{Reason: ReasonNoSignature, Detail: "missing header " + webhook.SignatureHeader}, nil
	case errors.Is(err, webhook.ErrSignatureMalformed):
		return Report{Reason: ReasonMalformed, Detail: strings.TrimPrefix(err.Error(), "webhook: ")}, nil
	}
	r := Report{Reason: ReasonValid, Detail: "the signature is correct", SignedAt: signedAt(header)}
	r.Age = now.Sub(r.SignedAt)
	if err == nil {
		return r, nil
	}
	r.Reason, r.Detail = d.explain(c, header, r)
	return r, nil
}

// signedAt returns the time in a signature header. The verifier has already parsed it.
func signedAt(header string) time.Time {
	for element := range strings.SplitSeq(header, ",") {
		if text, found := strings.CutPrefix(strings.TrimSpace(element), "t="); found {
			seconds, _ := strconv.ParseInt(text, 10, 64)
			return time.Unix(seconds, 0).UTC()
		}
	}
	return time.Time{}
}

// explain determines which secret and which form of the body match the signature.
func (d Delivery) explain(c Config, header string, r Report) (Reason, string) {
	matches := func(secrets []api.Secret, body []byte) bool {
		verifier, err := webhook.NewVerifier(webhook.VerifierConfig{Secrets: secrets, Now: func() time.Time { return r.SignedAt }})
		return err == nil && verifier.Verify(header, body) == nil
	}
	if matches(c.Secrets, d.Body) {
		return staleness(r.Age)
	}
	if !c.Challenge.IsZero() && matches([]api.Secret{c.Challenge}, d.Body) {
		return ReasonChallenge, "the delivery was signed with the challenge token: secret and challenge token are swapped"
	}
	for _, form := range d.forms() {
		if matches(c.Secrets, form.body) {
			return ReasonBodyChanged, "the secret is correct, but the body was changed after signing: " + form.change
		}
	}
	if d.Announced >= 0 && d.Announced != len(d.Body) {
		return ReasonBodyChanged, fmt.Sprintf("the body has %d bytes, but Content-Length is %d: the body was cut off or changed, or the secret is wrong", len(d.Body), d.Announced)
	}
	return ReasonWrongSecret, "no secret matches this body: it was signed with the secret of another application or environment, or changed in an unknown way"
}

func staleness(age time.Duration) (Reason, string) {
	const tolerance = defaults.SignatureTolerance
	if age > 0 {
		return ReasonTooOld, fmt.Sprintf("the signature is correct, but was made %s before the delivery arrived: %s over the limit", age.Round(time.Second), (age - tolerance).Round(time.Second))
	}
	return ReasonTooNew, fmt.Sprintf("the signature is correct, but was made %s after the delivery arrived: %s over the limit. The receiver's clock is slow", -age.Round(time.Second), (-age - tolerance).Round(time.Second))
}

// form is a body as it may have been signed, and the change that explains the received one.
type form struct {
	body   []byte
	change string
}

// forms returns the bodies that may have been signed, given the received one.
func (d Delivery) forms() (all []form) {
	add := func(body []byte, change string) { all = append(all, form{body, change}) }
	if d.Announced >= 0 && d.Announced < len(d.Body) {
		add(d.Body[:d.Announced], "bytes were added at its end")
	}
	trimmed := bytes.TrimSpace(d.Body)
	add(trimmed, "whitespace was added around it")
	for _, end := range []string{"\n", "\r\n"} {
		add(append(bytes.Clone(trimmed), end...), "the line break at its end was changed or removed")
	}
	add(bytes.TrimPrefix(d.Body, []byte("\xef\xbb\xbf")), "a byte order mark was added at its start")
	unix := bytes.ReplaceAll(d.Body, []byte("\r\n"), []byte("\n"))
	add(unix, "its line breaks were changed from LF to CR LF")
	add(bytes.ReplaceAll(unix, []byte("\n"), []byte("\r\n")), "its line breaks were changed from CR LF to LF")
	return append(all, reencoded(trimmed)...)
}

// reencoded returns the same JSON as the libraries of several languages encode it.
func reencoded(body []byte) (all []form) {
	const change = "it was decoded and encoded again as JSON"
	var compact bytes.Buffer
	if json.Compact(&compact, body) != nil {
		return nil
	}
	var escaped bytes.Buffer
	json.HTMLEscape(&escaped, compact.Bytes())
	var indented bytes.Buffer
	for _, text := range [][]byte{compact.Bytes(), escaped.Bytes(), unescape(compact.Bytes()), bytes.ReplaceAll(compact.Bytes(), []byte(`\/`), []byte("/"))} {
		all = append(all, form{text, change}, form{spaced(text), change})
		for _, indent := range []string{"  ", "    ", "\t"} {
			indented.Reset()
			if json.Indent(&indented, text, "", indent) == nil {
				all = append(all, form{bytes.Clone(indented.Bytes()), change}, form{append(bytes.Clone(indented.Bytes()), '\n'), change})
			}
		}
	}
	return all
}

// unescape decodes the HTML escape sequences of JSON encoders.
func unescape(body []byte) []byte {
	return []byte(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(body)))
}

// spaced adds a space after each comma and colon between values, as some encoders do.
func spaced(body []byte) []byte {
	var made []byte
	inText := false
	for i, b := range body {
		made = append(made, b)
		switch {
		case b == '"' && !escapedAt(body, i):
			inText = !inText
		case (b == ',' || b == ':') && !inText:
			made = append(made, ' ')
		}
	}
	return made
}

// escapedAt reports whether an odd number of backslashes precedes body[at].
func escapedAt(body []byte, at int) bool {
	n := 0
	for ; n < at && body[at-1-n] == '\\'; n++ {
	}
	return n%2 == 1
}
