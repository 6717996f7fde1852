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

// MaxBody is the largest request body that is read; 413 beyond it is an
// assumption.
const MaxBody = 1 << 20

// How many characters a text has at most: assumptions.
const (
	maxText  = 255
	maxProse = 65_535
)

// form is a JSON object of a request body. It collects what is wrong with the
// fields a handler asks for, and remembers which ones it did not ask for, so
// that a misspelt field cannot pass silently.
type form struct {
	path   string
	values map[string]any
	asked  []string
	parts  []*form
	errs   *[]string
	strict bool // err refuses fields that were not read; on the whole body's form
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

// loneSurrogate reports that an escape of a JSON document stands for half a character,
// which decoding would replace.
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

// unitOf is what an escape such as \u00e9 at the beginning stands for.
func unitOf(escape []byte) (rune, bool) {
	if len(escape) < 6 || escape[0] != '\\' || escape[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(escape[2:6]), 16, 16)
	return rune(unit), err == nil
}

// field is a value that may be absent or null.
type field[T any] struct {
	sent bool // present, null included
	null bool
	is   T
}

// or returns the value, or a fallback where there is none.
func (f field[T]) or(fallback T) T {
	if !f.sent || f.null {
		return fallback
	}
	return f.is
}

// change is what an update does with a field: nothing unless it was sent; null
// makes it zero.
func (f field[T]) change(to *T) {
	if f.sent {
		*to = f.is
	}
}

func (f *form) complain(name, text string) {
	*f.errs = append(*f.errs, label(f.path+name)+" "+text)
}

// err is everything that is wrong, as a 422. A handler asks for it before it
// changes anything, and after it has asked for every field it knows.
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

// read takes a field through a conversion that tells whether the type is right.
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

// prose is a text that may be long.
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

// word is a text that has to be there on creation, and may not be emptied by an
// update.
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

// truth is a boolean that is also accepted as "true" and "false".
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

// amount is a whole number above 0 that is also accepted as a string.
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

// object is a nested form; nil when there is none.
func (f *form) object(name string) *form {
	values := read(f, name, "an object", func(v any) (map[string]any, bool) { m, ok := v.(map[string]any); return m, ok })
	if values.is == nil {
		return nil
	}
	return f.part(name+".", values.is)
}

// objects is a list of nested forms.
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

// unread lists the fields that the operation did not read, each with the closest name
// that it did.
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

// label writes a field as messages name it: "first_name" is "First name", and
// "practitioner_id" is "Practitioner".
func label(name string) string {
	name = strings.ReplaceAll(strings.TrimSuffix(name, "_id"), "_", " ")
	return strings.ToUpper(name[:1]) + name[1:]
}
