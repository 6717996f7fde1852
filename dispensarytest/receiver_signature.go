package dispensarytest

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

func signatureCases() []receiverCase {
	return []receiverCase{
		{
			name: "Valid", run: (*examination).validSignature,
			consequence: "every webhook fails, and after 24 hours the platform switches the address off.",
			fix:         "compute HMAC-SHA256 with the webhook secret over <t>.<raw body>, t being the text in the header, and compare its hex digits with v1.",
		},
		{
			name: "RawBytes", run: (*examination).rawBytes,
			consequence: "events fail that another program would have written with other white space, escapes or order: today none, with the platform's next release perhaps all.",
			fix:         "verify the bytes as they arrived. Mount the endpoint in front of everything that reads or parses bodies, and decode only what is verified.",
		},
		{
			name: "Forged", run: (*examination).forged,
			consequence: "whoever knows the address can place orders and patients in your records.",
			fix:         "verify the signature of every request before anything else, with the webhook secret, over timestamp and body, comparing all 64 digits (in Go hmac.Equal).",
		},
		{
			name: "Missing", run: (*examination).missingSignature,
			consequence: "whoever knows the address can place orders and patients in your records: leaving the signature off is enough.",
			fix:         "refuse a request without SVC-Signature with 401.",
		},
		{
			name: "Malformed", run: (*examination).malformedSignature,
			consequence: "a scanner's requests are taken for events, or end in errors that wake somebody up.",
			fix:         "read the header as t=<digits>,v1=<64 hex digits>, and refuse everything else with 401.",
		},
	}
}

// validSignature also finds out why a signature is refused.
func (x *examination) validSignature() {
	n, e, inTime := x.contact()
	switch {
	case !inTime:
	case x.accepts("an event with a valid signature", e):
		x.handled(n, 1)
	default:
		x.diagnose(n, e)
	}
}

func (x *examination) rawBytes() {
	n := x.notice(PatientUpdated)
	x.accepts("a signed body with unusual white space, escapes and numbers", x.deliver(n.written()))
	n = x.notice(PatientUpdated)
	var compact bytes.Buffer
	if err := json.Compact(&compact, n.written()); err != nil {
		panic(err) // it is a constant but for ids
	}
	e := x.post(parcel{body: n.written(), signature: signedHeader(x.Secret, x.Now(), compact.Bytes())})
	x.refuses("a body whose signature is that of the same JSON without white space", e)
}

func (x *examination) forged() {
	now := x.Now()
	for _, forgery := range []struct {
		what string
		sign func(body []byte) string
	}{
		{"an event signed with another secret", func(body []byte) string { return signedHeader(forgedSecret, now, body) }},
		{"an event signed with an empty secret", func(body []byte) string { return signedHeader("", now, body) }},
		{"an event signed with the challenge token", func(body []byte) string { return signedHeader(x.Challenge, now, body) }},
		{"an event with the signature of another body", func(body []byte) string {
			return signedHeader(x.Secret, now, bytes.Replace(body, []byte("event"), []byte("tnevE"), 1))
		}},
		{"an event whose signature was made for another second", func(body []byte) string {
			t := now.Unix()
			return "t=" + strconv.FormatInt(t, 10) + ",v1=" + hexMAC(x.Secret, strconv.FormatInt(t-1, 10)+".", body)
		}},
		{"an event whose signature leaves the timestamp out", func(body []byte) string {
			return "t=" + strconv.FormatInt(now.Unix(), 10) + ",v1=" + hexMAC(x.Secret, "", body)
		}},
		{"an event with the first half of its signature", func(body []byte) string {
			header := signedHeader(x.Secret, now, body)
			return header[:len(header)-32]
		}},
	} {
		n := x.notice(x.EventType)
		x.refuses(forgery.what, x.post(parcel{body: n.body(), signature: forgery.sign(n.body())}))
		x.ignored(n)
	}
}

func (x *examination) missingSignature() {
	n := x.notice(x.EventType)
	x.refuses("an event without a signature", x.post(parcel{body: n.body()}))
	x.ignored(n)
}

func (x *examination) malformedSignature() {
	n := x.notice(x.EventType)
	at := strconv.FormatInt(x.Now().Unix(), 10)
	digits := hexMAC(x.Secret, at+".", n.body())
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
		x.refuses("a header "+what, x.post(parcel{body: n.body(), signature: header}))
	}
	x.ignored(n)
}
