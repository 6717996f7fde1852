package api

import (
	"bytes"
	"database/sql/driver"
	"encoding/json"
)

// scalarText returns the characters of a JSON string, or those of any other value. null
// reports null and the empty string.
func scalarText(data []byte) (text []byte, null bool) {
	switch {
	case string(data) == "null", string(data) == `""`:
		return nil, true
	case len(data) < 2 || data[0] != '"':
		return data, false
	case bytes.IndexByte(data, '\\') < 0:
		return data[1 : len(data)-1], false
	}
	var unescaped string
	_ = json.Unmarshal(data, &unescaped) // a text that cannot be read is no number, date or time
	return []byte(unescaped), false
}

// jsonOf returns the result of MarshalText as a JSON string. The text needs no escapes, and
// the empty one is null.
func jsonOf(text []byte, err error) ([]byte, error) {
	switch {
	case err != nil:
		return nil, err
	case len(text) == 0:
		return []byte("null"), nil
	}
	return []byte(`"` + string(text) + `"`), nil
}

// columnOf returns the result of MarshalText as the value of a column. The empty text is NULL.
func columnOf(text []byte, err error) (driver.Value, error) {
	if err != nil || len(text) == 0 {
		return nil, err
	}
	return string(text), nil
}

// parseText sets to, unless text cannot be parsed. The empty text is the zero value.
func parseText[T any](to *T, text []byte, parse func(string) (T, error)) error {
	var parsed T
	if len(text) > 0 {
		var err error
		if parsed, err = parse(string(text)); err != nil {
			return err
		}
	}
	*to = parsed
	return nil
}
