package control

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
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

// decode decodes a request body into a struct. It rejects unknown fields, because a misspelled
// field would otherwise have no effect. An empty body counts as an empty object.
func decode(body []byte, into any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	return decodeInto("", body, reflect.ValueOf(into).Elem())
}

var (
	timeType     = reflect.TypeFor[time.Time]()
	durationType = reflect.TypeFor[time.Duration]()
	centsType    = reflect.TypeFor[model.Cents]()
)

func decodeInto(path string, raw json.RawMessage, v reflect.Value) error {
	null := bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
	switch {
	case v.Kind() == reflect.Pointer && null:
		return nil
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return decodeInto(path, raw, v.Elem())
	case v.Type() == timeType:
		return decodePlain(path, raw, v, "a time such as 2026-03-02T09:00:00Z")
	case v.Type() == durationType:
		return decodeDuration(path, raw, v)
	case v.Type() == centsType:
		return decodeCents(path, raw, v)
	}
	switch v.Kind() {
	case reflect.Struct:
		return decodeObject(path, raw, v)
	case reflect.Slice:
		return decodeList(path, raw, v)
	case reflect.String:
		return decodePlain(path, raw, v, "a string")
	case reflect.Bool:
		return decodePlain(path, raw, v, "true or false")
	case reflect.Float64:
		return decodePlain(path, raw, v, "a number")
	default:
		return decodePlain(path, raw, v, "a whole number")
	}
}

func decodePlain(path string, raw json.RawMessage, v reflect.Value, wanted string) error {
	if json.Unmarshal(raw, v.Addr().Interface()) != nil {
		return invalid("%s must be %s", named(path), wanted)
	}
	return nil
}

func decodeObject(path string, raw json.RawMessage, v reflect.Value) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return invalid("%s must be a JSON object", named(path))
	}
	known := fieldsOf(v.Type())
	for _, f := range known {
		if member, sent := members[f.name]; sent {
			if err := decodeInto(strings.TrimPrefix(path+"."+f.name, "."), member, v.Field(f.index)); err != nil {
				return err
			}
			delete(members, f.name)
		}
	}
	for name := range members {
		var names []string
		for _, f := range known {
			names = append(names, f.name)
		}
		return invalid("%s has no field %q, only %s", named(path), name, strings.Join(names, ", "))
	}
	return nil
}

func decodeList(path string, raw json.RawMessage, v reflect.Value) error {
	var members []json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return invalid("%s must be a list", named(path))
	}
	if members == nil {
		return nil
	}
	list := reflect.MakeSlice(v.Type(), len(members), len(members))
	for i, member := range members {
		if err := decodeInto(path+"["+strconv.Itoa(i)+"]", member, list.Index(i)); err != nil {
			return err
		}
	}
	v.Set(list)
	return nil
}

// decodeDuration decodes a duration in Go's notation, with units.
func decodeDuration(path string, raw json.RawMessage, v reflect.Value) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if d, err := time.ParseDuration(text); err == nil {
			v.SetInt(int64(d))
			return nil
		}
	}
	return invalid("%s must be a duration such as 1m30s", named(path))
}

// decodeCents decodes an amount of money as the API writes it, such as "19.99". It rejects
// JSON numbers, because callers could mean dollars or cents.
func decodeCents(path string, raw json.RawMessage, v reflect.Value) error {
	wrong := invalid(`%s must be an amount such as "19.99"`, named(path))
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return wrong
	}
	integer, fraction, found := strings.Cut(text, ".")
	if found && len(fraction) != 2 {
		return wrong
	}
	if !found {
		fraction = "00"
	}
	amount, err := strconv.ParseUint(integer+fraction, 10, 53)
	if err != nil {
		return wrong
	}
	v.SetInt(int64(amount))
	return nil
}

func named(path string) string {
	if path == "" {
		return "the body"
	}
	return path
}

// problem is an error of the API with its HTTP status.
type problem struct {
	status  int
	message string
}

func (p *problem) Error() string { return p.message }

func invalid(format string, args ...any) error {
	return &problem{status: 422, message: fmt.Sprintf(format, args...)}
}

// reject sends an error response. An error of the platform determines the status: 404, 409, or
// 422 for any other error.
func reject(w http.ResponseWriter, err error) {
	status := http.StatusUnprocessableEntity
	var p *problem
	switch {
	case errors.As(err, &p):
		status = p.status
	case errors.Is(err, model.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, model.ErrState):
		status = http.StatusConflict
	}
	send(w, status, jsonMedia, errorBody(strings.TrimPrefix(err.Error(), "dispensarytest: ")))
}

func errorBody(message string) []byte {
	body, _ := json.Marshal(map[string]string{"error": message}) // strings always encode
	return body
}

const jsonMedia = "application/json"

func send(w http.ResponseWriter, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have disconnected
}
