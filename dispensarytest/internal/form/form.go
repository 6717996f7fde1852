// Package form reads the JSON objects of requests and of world files, and describes their
// fields.
package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
)

// Form is a JSON object. It collects the errors of the fields that its user reads. It also
// records the fields that nobody has read, so a misspelled field is noticed.
type Form struct {
	path   string
	values map[string]any
	asked  []string
	parts  []*Form
	errs   *[]string
	label  func(path string) string
}

// New returns an empty form. label returns the name of a field in messages.
func New(label func(path string) string) *Form {
	return &Form{values: map[string]any{}, errs: new([]string), label: label}
}

// Errors of Decode.
var (
	errNoObject  = errors.New("must be a JSON object")
	errSecond    = errors.New("must be one JSON object")
	errNotUTF8   = errors.New("must be UTF-8")
	errSurrogate = errors.New("must not have one half of a surrogate pair (\\ud800 to \\udfff) without the other")
)

// Decode reads the values of a form. An error completes a sentence, such as "must be UTF-8".
func (f *Form) Decode(body []byte) error {
	if !utf8.Valid(body) {
		return errNotUTF8
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var values map[string]any
	err := decoder.Decode(&values)
	if err != nil || values == nil {
		return errNoObject
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errSecond
	}
	if loneSurrogate(body) {
		return errSurrogate
	}
	f.values = values
	return nil
}

// loneSurrogate reports whether a JSON document escapes half of a surrogate pair, which
// decoding would replace.
func loneSurrogate(body []byte) bool {
	for {
		at := bytes.IndexByte(body, '\\')
		if at < 0 {
			return false
		}
		high, escaped := unitOf(body[at:])
		if body = body[at+2:]; !escaped || !utf16.IsSurrogate(high) {
			continue
		}
		body = body[4:]
		low, _ := unitOf(body)
		if utf16.DecodeRune(high, low) == utf8.RuneError {
			return true
		}
		body = body[6:]
	}
}

// unitOf returns the UTF-16 unit of an escape such as \u00e9 at the beginning.
func unitOf(escape []byte) (rune, bool) {
	if len(escape) < 6 || escape[0] != '\\' || escape[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(escape[2:6]), 16, 16)
	return rune(unit), err == nil
}

// Value is the value of a field, which may be absent or null.
type Value[T any] struct {
	Sent bool // present, even as null
	Null bool
	Is   T
}

// Or returns the value, or fallback if there is none.
func (v Value[T]) Or(fallback T) T {
	if !v.Sent || v.Null {
		return fallback
	}
	return v.Is
}

// Change applies a field of an update: an absent field changes nothing, and null sets zero.
func (v Value[T]) Change(to *T) {
	if v.Sent {
		*to = v.Is
	}
}

// Complain adds an error of a field.
func (f *Form) Complain(name, text string) { *f.errs = append(*f.errs, f.label(f.path+name)+" "+text) }

// Errors returns the errors of all forms in the object. The caller must not modify them.
func (f *Form) Errors() []string { return *f.errs }

// Raw returns a value as decoded, and whether it is present.
func (f *Form) Raw(name string) (any, bool) {
	if !slices.Contains(f.asked, name) {
		f.asked = append(f.asked, name)
	}
	v, sent := f.values[name]
	return v, sent
}

// read reads a field with a conversion. convert reports whether the type is right.
func read[T any](f *Form, name, kind string, convert func(any) (T, bool)) Value[T] {
	v, sent := f.Raw(name)
	if !sent || v == nil {
		return Value[T]{Sent: sent, Null: sent}
	}
	is, fits := convert(v)
	if !fits {
		f.Complain(name, "must be "+kind)
	}
	return Value[T]{Sent: true, Is: is}
}

// Text reads a text of up to 255 characters.
func (f *Form) Text(name string) Value[string] { return f.text(false, Field{Name: name}) }

// Prose reads a text of up to 65,535 characters.
func (f *Form) Prose(name string) Value[string] {
	return f.text(false, Field{Name: name, most: maxProse})
}

// Word reads a text that must not be blank. It must be present if required is set.
func (f *Form) Word(name string, required bool) Value[string] {
	return f.text(required, Field{Name: name, Required: true})
}

// Choice reads one of several texts.
func (f *Form) Choice(name string, allowed ...string) Value[string] {
	return f.text(false, Field{Name: name, Allowed: allowed})
}

// Read reads the fields of a row, which it changes. A new row needs the required fields.
func (f *Form) Read(isNew bool, fields ...Field) {
	for _, field := range fields {
		f.text(isNew, field).Change(field.To)
	}
}

// text reads a text. In a new row, it must be present if it is required.
func (f *Form) text(isNew bool, field Field) Value[string] {
	before := len(*f.errs)
	text := read(f, field.Name, "a string", func(v any) (string, bool) { s, ok := v.(string); return s, ok })
	if text.Sent && !text.Null || field.Required && (isNew || text.Sent) {
		if reason := field.reject(text.Is); reason != "" && len(*f.errs) == before {
			f.Complain(field.Name, reason)
		}
	}
	return text
}

// Percent reads a number from 0 to 100.
func (f *Form) Percent(name string) Value[float64] {
	return read(f, name, "a number from 0 to 100", func(v any) (float64, bool) {
		n, ok := v.(json.Number)
		if !ok {
			return 0, false
		}
		value, err := n.Float64()
		return value, err == nil && value >= 0 && value <= 100
	})
}

// Truth reads a boolean, or the strings "true" and "false".
func (f *Form) Truth(name string) Value[bool] {
	return read(f, name, "true or false", func(v any) (bool, bool) {
		switch v := v.(type) {
		case bool:
			return v, true
		case string:
			return v == "true", v == "true" || v == "false"
		}
		return false, false
	})
}

// Amount reads a whole number above 0, or a string that contains one.
func (f *Form) Amount(name string) Value[int] {
	return read(f, name, "a whole number above 0", func(v any) (int, bool) {
		text, ok := v.(string)
		if n, isNumber := v.(json.Number); isNumber {
			text, ok = n.String(), true
		}
		value, err := strconv.ParseInt(text, 10, 32)
		return int(value), ok && err == nil && value > 0
	})
}

// Object reads a nested form. It returns nil if there is none.
func (f *Form) Object(name string) *Form {
	values := read(f, name, "an object", func(v any) (map[string]any, bool) { m, ok := v.(map[string]any); return m, ok })
	if values.Is == nil {
		return nil
	}
	return f.part(name+".", values.Is)
}

// Objects reads a list of nested forms.
func (f *Form) Objects(name string) Value[[]*Form] {
	const kind = "an array of objects"
	list := read(f, name, kind, func(v any) ([]any, bool) { l, ok := v.([]any); return l, ok })
	parts := Value[[]*Form]{Sent: list.Sent, Null: list.Null}
	for i, v := range list.Is {
		values, ok := v.(map[string]any)
		if !ok {
			f.Complain(name, "must be "+kind)
			return parts
		}
		parts.Is = append(parts.Is, f.part(fmt.Sprintf("%s[%d].", name, i), values))
	}
	return parts
}

func (f *Form) part(path string, values map[string]any) *Form {
	part := &Form{path: f.path + path, values: values, errs: f.errs, label: f.label}
	f.parts = append(f.parts, part)
	return part
}

// Unread returns the fields that were not read, each with the closest field that was read.
func (f *Form) Unread() []model.Unread {
	if f == nil {
		return nil
	}
	unread := Strays(f.path, f.values, f.asked)
	for _, part := range f.parts {
		unread = append(unread, part.Unread()...)
	}
	return unread
}

// Strays returns the names that are not in known, each below path and with the closest known one.
func Strays[V any](path string, names map[string]V, known []string) (strays []model.Unread) {
	for name := range names {
		if !slices.Contains(known, name) {
			strays = append(strays, model.Unread{Name: path + name, Near: closestmatch.To(name, known)})
		}
	}
	slices.SortFunc(strays, func(a, b model.Unread) int { return strings.Compare(a.Name, b.Name) })
	return strays
}

// Label returns the name of a field in messages: "first_name" is "First name", and
// "practitioner_id" is "Practitioner".
func Label(name string) string {
	name = strings.ReplaceAll(strings.TrimSuffix(name, "_id"), "_", " ")
	return strings.ToUpper(name[:1]) + name[1:]
}
