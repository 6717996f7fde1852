package receivercheck

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

func signatureCases() []testCase {
	return []testCase{
		{
			name: "Valid", run: (*checker).validSignature,
			consequence: "every webhook fails, and after 24 hours the platform switches the address off.",
			fix:         "compute HMAC-SHA256 with the webhook secret over <t>.<raw body>, t being the text in the header, and compare its hex digits with v1.",
		},
		{
			name: "RawBytes", run: (*checker).rawBytes,
			consequence: "events fail that another program would have written with other white space, escapes or order: today none, with the platform's next release perhaps all.",
			fix:         "verify the bytes as they arrived. Mount the endpoint in front of everything that reads or parses bodies, and decode only what is verified.",
		},
		{
			name: "Forged", run: (*checker).forged,
			consequence: "whoever knows the address can place orders and patients in your records.",
			fix:         "verify the signature of every request before anything else, with the webhook secret, over timestamp and body, comparing all 64 digits (in Go hmac.Equal).",
		},
		{
			name: "Missing", run: (*checker).missingSignature,
			consequence: "whoever knows the address can place orders and patients in your records: leaving the signature off is enough.",
			fix:         "refuse a request without SVC-Signature with 401.",
		},
		{
			name: "Malformed", run: (*checker).malformedSignature,
			consequence: "a scanner's requests are taken for events, or end in errors that wake somebody up.",
			fix:         "read the header as t=<digits>,v1=<64 hex digits>, and refuse everything else with 401.",
		},
	}
}

// validSignature also finds out why a signature is refused.
func (c *checker) validSignature() {
	n, e, inTime := c.contact()
	switch {
	case !inTime:
	case c.accepts("an event with a valid signature", e):
		c.handled(n, 1)
	default:
		c.diagnose(n, e)
	}
}

func (c *checker) rawBytes() {
	n := c.newEvent(dispensarytest.PatientUpdated)
	c.accepts("a signed body with unusual white space, escapes and numbers", c.deliver(n.unusual()))
	n = c.newEvent(dispensarytest.PatientUpdated)
	var compact bytes.Buffer
	if err := json.Compact(&compact, n.unusual()); err != nil {
		panic(err) // it is a constant but for ids
	}
	e := c.post(request{body: n.unusual(), signature: sign(c.Secret, c.Timing.Now(), compact.Bytes())})
	c.refuses("a body whose signature is that of the same JSON without white space", e)
}

func (c *checker) forged() {
	now := c.Timing.Now()
	for _, forgery := range []struct {
		what string
		sign func(body []byte) string
	}{
		{"an event signed with another secret", func(body []byte) string { return sign(wrongSecret, now, body) }},
		{"an event signed with an empty secret", func(body []byte) string { return sign("", now, body) }},
		{"an event signed with the challenge token", func(body []byte) string { return sign(c.Challenge, now, body) }},
		{"an event with the signature of another body", func(body []byte) string {
			return sign(c.Secret, now, bytes.Replace(body, []byte("event"), []byte("tnevE"), 1))
		}},
		{"an event whose signature was made for another second", func(body []byte) string {
			t := now.Unix()
			return "t=" + strconv.FormatInt(t, 10) + ",v1=" + hexMAC(c.Secret, strconv.FormatInt(t-1, 10)+".", body)
		}},
		{"an event whose signature leaves the timestamp out", func(body []byte) string {
			return "t=" + strconv.FormatInt(now.Unix(), 10) + ",v1=" + hexMAC(c.Secret, "", body)
		}},
		{"an event with the first half of its signature", func(body []byte) string {
			header := sign(c.Secret, now, body)
			return header[:len(header)-32]
		}},
	} {
		n := c.newEvent(c.Hooks.EventType)
		c.refuses(forgery.what, c.post(request{body: n.body(), signature: forgery.sign(n.body())}))
		c.ignored(n)
	}
}

func (c *checker) missingSignature() {
	n := c.newEvent(c.Hooks.EventType)
	c.refuses("an event without a signature", c.post(request{body: n.body()}))
	c.ignored(n)
}

func (c *checker) malformedSignature() {
	n := c.newEvent(c.Hooks.EventType)
	at := strconv.FormatInt(c.Timing.Now().Unix(), 10)
	digits := hexMAC(c.Secret, at+".", n.body())
	for what, header := range sorted(map[string]string{
		"that is a word":                       "signature",
		"of commas":                            strings.Repeat(",", 8<<10),
		"whose values are empty":               "t=,v1=",
		"without v1":                           "t=" + at,
		"with an empty v1":                     "t=" + at + ",v1=",
		"whose v1 is not hexadecimal":          "t=" + at + ",v1=" + strings.Repeat("zz", 32),
		"without t":                            "v1=" + digits,
		"with an empty t":                      "t=,v1=" + digits,
		"that is the bare signature":           digits,
		"of another scheme (v0 in v1's place)": "t=" + at + ",v0=" + digits,
	}) {
		c.refuses("a header "+what, c.post(request{body: n.body(), signature: header}))
	}
	c.ignored(n)
}
