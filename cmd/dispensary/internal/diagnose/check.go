package diagnose

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/webhook"
)

// Reason is what is wrong with a delivery, for programs.
type Reason string

// The reasons of a Report.
const (
	ReasonValid       Reason = "valid"        // nothing is
	ReasonNoSignature Reason = "no_signature" // there is no signature header
	ReasonMalformed   Reason = "malformed"    // the header cannot be read
	ReasonTooOld      Reason = "too_old"      // the signature is right, and was made too long before
	ReasonTooNew      Reason = "too_new"      // the signature is right, and was made after
	ReasonBodyChanged Reason = "body_changed" // the secret is right, and the body is not what was signed
	ReasonChallenge   Reason = "challenge"    // it was signed with what is configured as the challenge token
	ReasonWrongSecret Reason = "wrong_secret" // none of the secrets signed it, nor any form of the body that is tried
)

// Config is what a delivery is checked against. Secrets are required.
type Config struct {
	// Secrets are those of [webhook.VerifierConfig].
	Secrets []api.Secret

	// Challenge is the challenge token, to notice that the two were swapped; may be empty.
	Challenge api.Secret

	// ReceivedAt is when the delivery arrived; zero means now.
	ReceivedAt time.Time
}

// Report says how a delivery was found. It holds nothing of secrets and body.
type Report struct {
	Reason Reason

	// Detail says it in words.
	Detail string

	// SignedAt is the time that the signature names, and Age how long before ReceivedAt
	// that was; zero where there is no signature to read.
	SignedAt time.Time
	Age      time.Duration
}

// Check verifies a delivery, and finds out why it is refused if it is. Its errors are those
// of [webhook.NewVerifier].
func Check(d Delivery, c Config) (Report, error) {
	now := cmp.Or(c.ReceivedAt, time.Now())
	verifier, err := webhook.NewVerifier(webhook.VerifierConfig{Secrets: c.Secrets, Now: func() time.Time { return now }})
	if err != nil {
		return Report{}, err
	}
	headers := d.Header.Values(webhook.SignatureHeader)
	if len(headers) > 1 {
		return Report{Reason: ReasonMalformed, Detail: "the header " + webhook.SignatureHeader + " is there more than once"}, nil
	}
	header := d.Header.Get(webhook.SignatureHeader)
	err = verifier.Verify(header, d.Body)
	switch {
	case errors.Is(err, webhook.ErrSignatureMissing):
		return Report{Reason: ReasonNoSignature, Detail: "there is no header " + webhook.SignatureHeader}, nil
	case errors.Is(err, webhook.ErrSignatureMalformed):
		return Report{Reason: ReasonMalformed, Detail: strings.TrimPrefix(err.Error(), "webhook: ")}, nil
	}
	r := Report{Reason: ReasonValid, Detail: "the signature is right", SignedAt: signedAt(header)}
	r.Age = now.Sub(r.SignedAt)
	if err == nil {
		return r, nil
	}
	r.Reason, r.Detail = d.explain(c, header, r)
	return r, nil
}

// signedAt reads the time of a header that could be read.
func signedAt(header string) time.Time {
	for element := range strings.SplitSeq(header, ",") {
		if text, found := strings.CutPrefix(strings.TrimSpace(element), "t="); found {
			seconds, _ := strconv.ParseInt(text, 10, 64)
			return time.Unix(seconds, 0).UTC()
		}
	}
	return time.Time{}
}

// explain looks for the secret and the body that the signature was made of.
func (d Delivery) explain(c Config, header string, r Report) (Reason, string) {
	matches := func(secrets []api.Secret, body []byte) bool {
		verifier, err := webhook.NewVerifier(webhook.VerifierConfig{Secrets: secrets, Now: func() time.Time { return r.SignedAt }})
		return err == nil && verifier.Verify(header, body) == nil
	}
	if matches(c.Secrets, d.Body) {
		return staleness(r.Age)
	}
	if !c.Challenge.IsZero() && matches([]api.Secret{c.Challenge}, d.Body) {
		return ReasonChallenge, "it was signed with what is configured as the challenge token: the two are swapped"
	}
	for _, form := range d.forms() {
		if matches(c.Secrets, form.body) {
			return ReasonBodyChanged, "the secret is right, and the body was changed after it was signed: " + form.change
		}
	}
	if d.Announced >= 0 && d.Announced != len(d.Body) {
		return ReasonBodyChanged, fmt.Sprintf("the body has %d bytes, and %d were announced: it was cut off or changed, or else the secret is another one", len(d.Body), d.Announced)
	}
	return ReasonWrongSecret, "none of the secrets signed this body: it is the secret of another application or environment, or the body was changed in a way that cannot be undone"
}

func staleness(age time.Duration) (Reason, string) {
	const tolerance = defaults.SignatureTolerance
	if age > 0 {
		return ReasonTooOld, fmt.Sprintf("the signature is right, and was made %s before the delivery arrived: %s more than is allowed", age.Round(time.Second), (age - tolerance).Round(time.Second))
	}
	return ReasonTooNew, fmt.Sprintf("the signature is right, and was made %s after the delivery arrived: %s more than is allowed; the receiver's clock is slow", -age.Round(time.Second), (-age - tolerance).Round(time.Second))
}

// form is a body as it may have been when it was signed, and what became of it since.
type form struct {
	body   []byte
	change string
}

// forms are bodies that this one may have been made of.
func (d Delivery) forms() (all []form) {
	add := func(body []byte, change string) { all = append(all, form{body, change}) }
	if d.Announced >= 0 && d.Announced < len(d.Body) {
		add(d.Body[:d.Announced], "there is something behind its end")
	}
	trimmed := bytes.TrimSpace(d.Body)
	add(trimmed, "there is white space around it")
	for _, end := range []string{"\n", "\r\n"} {
		add(append(bytes.Clone(trimmed), end...), "the line break at its end is another one or gone")
	}
	add(bytes.TrimPrefix(d.Body, []byte("\xef\xbb\xbf")), "a byte order mark stands before it")
	unix := bytes.ReplaceAll(d.Body, []byte("\r\n"), []byte("\n"))
	add(unix, "its line breaks are CR LF, and were LF")
	add(bytes.ReplaceAll(unix, []byte("\n"), []byte("\r\n")), "its line breaks are LF, and were CR LF")
	return append(all, reencoded(trimmed)...)
}

// reencoded are the ways in which the libraries of several languages write the same JSON.
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

// unescape takes back what encoders escape for pages of HTML.
func unescape(body []byte) []byte {
	return []byte(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(body)))
}

// spaced puts a space behind every comma and colon between values, as some encoders do.
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

// escapedAt reports that an odd number of backslashes stands before a place.
func escapedAt(body []byte, at int) bool {
	n := 0
	for ; n < at && body[at-1-n] == '\\'; n++ {
	}
	return n%2 == 1
}
