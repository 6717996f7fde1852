package api

import (
	"fmt"
	"log/slog"
)

// redacted replaces a secret in every text.
const redacted = "[redacted]"

// Secret is a string that must not be seen: a client secret, a token, a webhook
// key. Every way of printing, logging or encoding one yields "[redacted]";
// only [Secret.Reveal] returns the value. [NewSecret] creates one.
//
// A Secret in a struct that is encoded to JSON is encoded as "[redacted]" too.
// Code that must store or send the value reveals it on purpose.
type Secret string

// NewSecret returns a Secret of text. The zero Secret is the empty one.
func NewSecret(text string) Secret { return Secret(text) }

// Reveal returns the value itself.
func (s Secret) Reveal() string { return string(s) }

// IsZero reports whether the secret is empty.
func (s Secret) IsZero() bool { return s == "" }

// String returns "[redacted]", or "" for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString redacts the %#v form.
func (s Secret) GoString() string { return fmt.Sprintf("api.Secret(%q)", s.String()) }

// Format redacts every fmt verb, the numeric ones included.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') {
		fmt.Fprint(f, s.GoString())
		return
	}
	fmt.Fprint(f, s.String())
}

// LogValue redacts the secret in structured logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText redacts the secret in JSON and in every other encoding that asks
// for text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
