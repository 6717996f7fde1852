package transport

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit/hidden"
)

// requestFields contains the names of possible fields in the body and the query of a request,
// with [] for a position in a list: "recommendations[].variant_id".
type requestFields []string

// maxFieldDepth limits the nesting of types to follow. No request is nested deeper.
const maxFieldDepth = 4

func typeFields(names []string, path string, t reflect.Type, depth int) []string {
	for t != nil && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice) {
		if t.Kind() == reflect.Slice && path != "" {
			path = strings.TrimSuffix(path, ".") + "[]."
		}
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct || depth > maxFieldDepth {
		return names
	}
	for name, of := range fieldsOf(t) {
		names = typeFields(append(names, path+name), path+name+".", of, depth+1)
	}
	return names
}

func valueFields(names []string, path string, value any) []string {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			names = valueFields(append(names, path+name), path+name+".", inner)
		}
	case []any:
		for _, item := range value {
			names = valueFields(names, strings.TrimSuffix(path, ".")+"[].", item)
		}
	}
	return names
}

// place splits a text of the platform into messages with their fields. If the text contains
// several messages ("Email is invalid; Last name can't be blank"), each begins with its field.
func (f requestFields) place(text string) []hidden.Message {
	var placed []hidden.Message
	var field string
	begin, end := 0, 0
	for part := range strings.SplitSeq(text, "; ") {
		if about := f.about(part); about != "" || end == 0 {
			if end > 0 {
				placed = append(placed, hidden.Message{Field: field, Text: text[begin : end-len("; ")]})
			}
			field, begin = about, end
		}
		end += len(part) + len("; ")
	}
	return append(placed, hidden.Message{Field: field, Text: text[begin:]})
}

// about returns the field of a sentence: the field at its beginning, or the field named at its
// end ("param is missing or the value is empty: treatment_plan").
func (f requestFields) about(sentence string) string {
	field, _ := f.beginning(words(sentence))
	if field == "" {
		if colon := strings.LastIndex(sentence, ": "); colon >= 0 {
			field = f.named(sentence[colon:])
		}
	}
	return field
}

// named returns the field if text is only its name, in JSON form or in prose.
func (f requestFields) named(text string) string {
	said := words(text)
	if field, n := f.beginning(said); n == len(said) {
		return field
	}
	return ""
}

// beginning returns the longest field name at the beginning of said, and its number of words.
func (f requestFields) beginning(said []string) (field string, n int) {
	for _, name := range f {
		if as, length := match(name, said); length > n {
			field, n = as, length
		}
	}
	return field, n
}

// match compares a field's name with the first words of a text: "last_name" with "Last name",
// "recommendations[].variant_id" with "Recommendations[0].variant". It returns the field with
// the position from the text, and the number of matched words. Without a position it returns
// the list.
func match(name string, said []string) (field string, n int) {
	field = name
	list := strings.Split(name, "[]")
	for i, part := range list {
		own := words(part)
		for j, word := range own {
			switch {
			case n < len(said) && strings.EqualFold(said[n], word):
				n++
			case i == len(list)-1 && j == len(own)-1 && strings.HasSuffix(part, "_id"):
			default:
				return "", 0
			}
		}
		if i < len(list)-1 && n < len(said) && isNumber(said[n]) {
			field = strings.Replace(field, "[]", "["+said[n]+"]", 1)
			n++
		}
	}
	field, _, _ = strings.Cut(field, "[]")
	return field, n
}

// maxNameWords is the number of words to compare. No field's name is longer.
const maxNameWords = 16

// words returns the first words of a text, which are runs of letters and digits.
func words(text string) []string {
	var first []string
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if first = append(first, word); len(first) > maxNameWords {
			break
		}
	}
	return first
}

func isNumber(word string) bool { return strings.Trim(word, "0123456789") == "" }

// unencodable returns the fields of a body that JSON cannot represent, such as a date that
// does not exist, or "body" for the body itself. The error text of the encoder is not used,
// because it may contain the value.
func unencodable(names []string, path string, v reflect.Value) []string {
	if _, err := json.Marshal(v.Interface()); err == nil {
		return names
	}
	before := len(names)
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range reflect.VisibleFields(v.Type()) {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); field.IsExported() && name != "" && name != "-" {
				names = unencodable(names, path+name+".", v.FieldByIndex(field.Index))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			names = unencodable(names, strings.TrimSuffix(path, ".")+"["+strconv.Itoa(i)+"].", v.Index(i))
		}
	}
	if len(names) == before {
		names = append(names, cmp.Or(strings.TrimSuffix(path, "."), "body"))
	}
	return names
}

// fieldsOf returns the types of a struct's JSON members by name.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.IsExported() && name != "" && name != "-" {
			fields[name] = field.Type
		}
	}
	return fields
}

// notUTF8 is the reason for rejecting text that is not valid UTF-8. JSON cannot represent such
// text, and encoding/json replaces it without an error. The platform would store another text
// than the caller's and would not find a record by it.
const notUTF8 = "must be valid UTF-8"

// mayAlterText reports whether encoding/json may have replaced text in an encoded body.
// Depending on the Go version, it writes U+FFFD literally or escaped. A caller's own U+FFFD
// looks the same, so only [alteredText] can distinguish them. The check of a valid body does
// not allocate.
func mayAlterText(body []byte) bool {
	return bytes.Contains(body, []byte("\ufffd")) || bytes.Contains(body, []byte(`\ufffd`)) || !utf8.Valid(body)
}

// alteredText returns the JSON names of the fields in a body whose text is not valid UTF-8. It
// returns "body" for the body itself. The keys of a map count as the map.
//
// It cannot see text that a caller's own MarshalJSON has passed to encoding/json.
func alteredText(body any) []string {
	var w textWalk
	w.value("", reflect.ValueOf(body))
	slices.Sort(w.found)
	return slices.Compact(w.found)
}

// textWalk visits the values that encoding/json encodes. It needs no protection against
// cycles, because the body has been encoded before.
type textWalk struct{ found []string }

func (w *textWalk) check(path, text string) {
	if !utf8.ValidString(text) {
		w.found = append(w.found, cmp.Or(path, "body"))
	}
}

func (w *textWalk) value(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		w.value(path, v.Elem())
	case reflect.String:
		w.check(path, v.String())
	case reflect.Struct:
		w.fields(path, v)
	case reflect.Map:
		w.entries(path, v)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			break // base64, unless it encodes itself
		}
		for i := range v.Len() {
			w.value(path+"["+strconv.Itoa(i)+"]", v.Index(i))
		}
	}
	w.encoded(path, v)
}

// encoded checks the text of a value that encodes itself, such as a json.RawMessage.
func (w *textWalk) encoded(path string, v reflect.Value) {
	if v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface || !v.IsValid() {
		return // its element was visited
	}
	value := v.Interface()
	if v.CanAddr() {
		value = v.Addr().Interface()
	}
	var text []byte
	switch value := value.(type) {
	case json.Marshaler:
		text, _ = value.MarshalJSON()
	case encoding.TextMarshaler:
		text, _ = value.MarshalText()
	}
	w.check(path, string(text))
}

func (w *textWalk) fields(path string, v reflect.Value) {
	if t := v.Type(); t.PkgPath() == optionalPackage && strings.HasPrefix(t.Name(), "Optional[") {
		w.value(path, v.MethodByName("Get").Call(nil)[0])
		return
	}
	for _, field := range reflect.VisibleFields(v.Type()) {
		tag := field.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		embedded := field.Anonymous && name == "" // its fields are visible themselves
		if embedded && isStruct(field.Type) || !field.IsExported() || tag == "-" {
			continue
		}
		if value, err := v.FieldByIndexErr(field.Index); err == nil {
			w.value(below(path, cmp.Or(name, field.Name)), value)
		}
	}
}

func isStruct(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}

var optionalPackage = reflect.TypeFor[api.Optional[string]]().PkgPath()

func (w *textWalk) entries(path string, v reflect.Value) {
	for entries := v.MapRange(); entries.Next(); {
		key := entries.Key()
		w.value(path, key)
		if name := fmt.Sprint(key.Interface()); utf8.ValidString(name) {
			w.value(below(path, name), entries.Value())
		} else {
			w.value(path, entries.Value())
		}
	}
}

func below(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }
