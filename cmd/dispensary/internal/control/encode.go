package control

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"time"
	"unicode"
)

// encode returns a value of the platform as JSON. It derives the names, because the platform's
// structs have no JSON tags: their fields differ from the dispensary's wire format.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	if err := encodeInto(&out, reflect.ValueOf(value)); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func encodeInto(out *bytes.Buffer, v reflect.Value) error {
	if !v.IsValid() {
		out.WriteString("null")
		return nil
	}
	switch value := v.Interface().(type) {
	case time.Time:
		if value.IsZero() {
			out.WriteString("null")
			return nil
		}
		return encodePlain(out, value.Format(time.RFC3339Nano))
	case time.Duration:
		return encodePlain(out, value.String())
	case json.RawMessage:
		if len(value) == 0 {
			value = json.RawMessage("null")
		}
		out.Write(value)
		return nil
	case []byte: // a stored request or response body
		return encodePlain(out, string(value))
	case encoding.TextMarshaler:
		return encodePlain(out, value)
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return encodeInto(out, v.Elem())
	case reflect.Struct:
		return encodeObject(out, v)
	case reflect.Slice:
		return encodeList(out, v)
	default:
		return encodePlain(out, v.Interface())
	}
}

func encodeObject(out *bytes.Buffer, v reflect.Value) error {
	out.WriteByte('{')
	for i, f := range fieldsOf(v.Type()) {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(`"` + f.name + `":`)
		if err := encodeInto(out, v.Field(f.index)); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

// encodeList encodes a list. An empty or nil list is [], never null.
func encodeList(out *bytes.Buffer, v reflect.Value) error {
	out.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := encodeInto(out, v.Index(i)); err != nil {
			return err
		}
	}
	out.WriteByte(']')
	return nil
}

func encodePlain(out *bytes.Buffer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	out.Truncate(out.Len() - 1) // the encoder adds a line break
	return nil
}

// field is a struct field with its JSON name.
type field struct {
	name  string
	index int
	kind  reflect.Type
}

// fieldsOf returns the exported fields of a struct. It derives each JSON name from the Go
// name, so the API has every new field of the platform.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		fields = append(fields, field{name: snake(f.Name), index: i, kind: f.Type})
	}
	return fields
}

// snake converts a Go name to snake case: PlanIDs to plan_ids, MSRPTotal to msrp_total.
func snake(name string) string {
	runes := []rune(strings.NewReplacer("IDs", "Ids", "OAuth", "Oauth").Replace(name))
	var out strings.Builder
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) {
			before, last := runes[i-1], i+1 == len(runes)
			if !unicode.IsUpper(before) || !last && unicode.IsLower(runes[i+1]) {
				out.WriteByte('_')
			}
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}
