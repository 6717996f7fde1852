package control

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

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
	whole, fraction, found := strings.Cut(text, ".")
	if found && len(fraction) != 2 {
		return wrong
	}
	if !found {
		fraction = "00"
	}
	amount, err := strconv.ParseUint(whole+fraction, 10, 53)
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
