package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
)

// MaxBody is the maximum size of a request body. The status 413 beyond it is an assumption.
const MaxBody = 1 << 20

// Maximum lengths of texts in characters: assumptions.
const (
	maxText  = 255
	maxProse = 65_535
)

// form is a JSON object of a request body. It collects the errors of the fields that a handler
// reads. It also records the fields that no handler has read, so a misspelled field is
// noticed.
type form struct {
	path   string
	values map[string]any
	asked  []string
	parts  []*form
	errs   *[]string
	strict bool // err rejects unread fields; set on the form of the whole body
	whole  *form
}

func readForm(r *http.Request, strict bool) (*form, error) {
	f := &form{values: map[string]any{}, errs: new([]string), strict: strict}
	f.whole = f
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
	switch {
	case err != nil:
		return f, badRequest("The request body could not be read")
	case len(body) > MaxBody:
		return f, problemOf(http.StatusRequestEntityTooLarge, "The request body is too large")
	case len(bytes.TrimSpace(body)) == 0:
		return f, nil
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return f, badRequest("The request body must be JSON (Content-Type: application/json)")
	}
	if !utf8.Valid(body) {
		return f, badRequest("The request body must be UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&f.values); err != nil || f.values == nil {
		f.values = map[string]any{}
		return f, badRequest("The request body must be a JSON object")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return f, badRequest("The request body must be one JSON object")
	}
	if loneSurrogate(body) {
		f.values = map[string]any{}
		return f, badRequest("The request body must not have one half of a surrogate pair (\\ud800 to \\udfff) without the other")
	}
	return f, nil
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

// field is a value that may be absent or null.
type field[T any] struct {
	sent bool // present, even as null
	null bool
	is   T
}

// or returns the value, or fallback if there is none.
func (f field[T]) or(fallback T) T {
	if !f.sent || f.null {
		return fallback
	}
	return f.is
}

// change applies a field of an update: an absent field changes nothing, and null sets zero.
func (f field[T]) change(to *T) {
	if f.sent {
		*to = f.is
	}
}

func (f *form) complain(name, text string) {
	*f.errs = append(*f.errs, label(f.path+name)+" "+text)
}

// err returns all errors as a 422. A handler calls it after it has read all of its fields and
// before it changes anything.
func (f *form) err() error {
	wrong := slices.Clone(*f.errs)
	if f.whole.strict {
		for _, u := range f.whole.unread() {
			wrong = append(wrong, "Unknown field: "+u.Name)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return invalid(wrong...)
}

func (f *form) value(name string) (any, bool) {
	f.asked = append(f.asked, name)
	v, ok := f.values[name]
	return v, ok
}

// read reads a field with a conversion. convert reports whether the type is right.
func read[T any](f *form, name, kind string, convert func(any) (T, bool)) field[T] {
	v, sent := f.value(name)
	if !sent || v == nil {
		return field[T]{sent: sent, null: sent}
	}
	is, fits := convert(v)
	if !fits {
		f.complain(name, "must be "+kind)
	}
	return field[T]{sent: true, is: is}
}

func (f *form) text(name string) field[string] { return f.textUpTo(maxText, name) }

// prose reads a text that may be long.
func (f *form) prose(name string) field[string] { return f.textUpTo(maxProse, name) }

func (f *form) textUpTo(most int, name string) field[string] {
	text := read(f, name, "a string", func(v any) (string, bool) { s, ok := v.(string); return s, ok })
	if strings.ContainsRune(text.is, 0) {
		f.complain(name, "must not contain a NUL character")
	}
	if utf8.RuneCountInString(text.is) > most {
		f.complain(name, fmt.Sprintf("is too long (maximum is %d characters)", most))
	}
	return text
}

// word reads a text that must not be blank. It must be present if required is set.
func (f *form) word(name string, required bool) field[string] {
	before := len(*f.errs)
	word := f.text(name)
	if (required || word.sent) && strings.TrimSpace(word.is) == "" && len(*f.errs) == before {
		f.complain(name, "can't be blank")
	}
	return word
}

func (f *form) choice(name string, allowed ...string) field[string] {
	before := len(*f.errs)
	choice := f.text(name)
	if choice.sent && !choice.null && len(*f.errs) == before && !slices.Contains(allowed, choice.is) {
		f.complain(name, "must be one of "+strings.Join(allowed, ", "))
	}
	return choice
}

func (f *form) day(name string) field[string] {
	before := len(*f.errs)
	day := f.text(name)
	if day.sent && !day.null && len(*f.errs) == before && !store.ValidDay(day.is) {
		f.complain(name, "must be a date (yyyy-mm-dd)")
	}
	return day
}

func (f *form) percent(name string) field[float64] {
	return read(f, name, "a number from 0 to 100", func(v any) (float64, bool) {
		n, ok := v.(json.Number)
		if !ok {
			return 0, false
		}
		value, err := n.Float64()
		return value, err == nil && value >= 0 && value <= 100
	})
}

// truth reads a boolean, or the strings "true" and "false".
func (f *form) truth(name string) field[bool] {
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

// amount reads a whole number above 0, or a string that contains one.
func (f *form) amount(name string) field[int] {
	return read(f, name, "a whole number above 0", func(v any) (int, bool) {
		text, ok := v.(string)
		if n, isNumber := v.(json.Number); isNumber {
			text, ok = n.String(), true
		}
		value, err := strconv.ParseInt(text, 10, 32)
		return int(value), ok && err == nil && value > 0
	})
}

// object returns a nested form, or nil if there is none.
func (f *form) object(name string) *form {
	values := read(f, name, "an object", func(v any) (map[string]any, bool) { m, ok := v.(map[string]any); return m, ok })
	if values.is == nil {
		return nil
	}
	return f.part(name+".", values.is)
}

// objects reads a list of nested forms.
func (f *form) objects(name string) field[[]*form] {
	list := read(f, name, "an array of objects", func(v any) ([]any, bool) { l, ok := v.([]any); return l, ok })
	parts := field[[]*form]{sent: list.sent, null: list.null}
	for i, v := range list.is {
		values, ok := v.(map[string]any)
		if !ok {
			f.complain(name, "must be an array of objects")
			return parts
		}
		parts.is = append(parts.is, f.part(fmt.Sprintf("%s[%d].", name, i), values))
	}
	return parts
}

func (f *form) part(path string, values map[string]any) *form {
	part := &form{path: f.path + path, values: values, errs: f.errs, whole: f.whole}
	f.parts = append(f.parts, part)
	return part
}

// unread returns the fields that the operation did not read, each with the closest field that
// it did read.
func (f *form) unread() []model.Unread {
	if f == nil {
		return nil
	}
	var unread []model.Unread
	for name := range f.values {
		if !slices.Contains(f.asked, name) {
			unread = append(unread, model.Unread{Name: f.path + name, Near: closestmatch.To(name, f.asked)})
		}
	}
	slices.SortFunc(unread, func(a, b model.Unread) int { return strings.Compare(a.Name, b.Name) })
	for _, part := range f.parts {
		unread = append(unread, part.unread()...)
	}
	return unread
}

// label returns the name of a field in messages: "first_name" is "First name", and
// "practitioner_id" is "Practitioner".
func label(name string) string {
	name = strings.ReplaceAll(strings.TrimSuffix(name, "_id"), "_", " ")
	return strings.ToUpper(name[:1]) + name[1:]
}
