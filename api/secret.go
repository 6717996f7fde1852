package api

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"unsafe"
	"weak"
)

// redacted replaces a secret in every text.
const redacted = "[redacted]"

// Secret is a text that no printer shows: a client secret, a token or a webhook key. Printing,
// logging or encoding it yields "[redacted]". A printer that reads struct fields by reflection
// yields the memory address of the text. encoding/gob fails. Only [Secret.Reveal] returns the
// text, to store or send it. The zero Secret is empty.
//
// Two secrets are equal, with == or as map keys, if their texts are equal.
type Secret struct {
	// text is a *string from intern, or nil for the empty secret. It is untyped because
	// printers follow every typed pointer.
	text unsafe.Pointer
}

// NewSecret returns a Secret of text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{unsafe.Pointer(intern(text))}
}

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *(*string)(s.text)
}

// IsZero reports whether the secret is empty.
func (s Secret) IsZero() bool { return s.text == nil }

// String returns "[redacted]", or "" for an empty secret.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return redacted
}

// GoString redacts the secret for %#v.
func (s Secret) GoString() string { return fmt.Sprintf("api.NewSecret(%q)", s.String()) }

// Format redacts the secret for every verb, including the numeric ones.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') {
		fmt.Fprint(f, s.GoString())
		return
	}
	fmt.Fprint(f, s.String())
}

// LogValue redacts the secret in structured logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText redacts the secret in JSON and in every other encoding that calls it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// interned contains one pointer per text of the live secrets.
var interned = struct {
	sync.Mutex
	texts map[string]weak.Pointer[string]
}{texts: map[string]weak.Pointer[string]{}}

// intern returns the same pointer for equal texts while a secret uses it.
func intern(text string) *string {
	interned.Lock()
	defer interned.Unlock()
	if known := interned.texts[text].Value(); known != nil {
		return known
	}
	text = strings.Clone(text) // text may be a slice of a whole response
	p := new(text)
	interned.texts[text] = weak.Make(p)
	runtime.AddCleanup(p, forget, text)
	return p
}

// forget removes a text that no secret uses anymore.
func forget(text string) {
	interned.Lock()
	defer interned.Unlock()
	if interned.texts[text].Value() == nil {
		delete(interned.texts, text)
	}
}
