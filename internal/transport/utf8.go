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
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/api"
)

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
