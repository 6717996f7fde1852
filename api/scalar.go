package api

import (
	"bytes"
	"database/sql/driver"
	"encoding/json"
)

// scalarText returns the content of a JSON string, or the text of any other JSON value. null
// is true for null and the empty string.
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
	_ = json.Unmarshal(data, &unescaped) // invalid text fails to parse later
	return []byte(unescaped), false
}

// jsonOf returns the result of MarshalText as a JSON string, or null for the empty text. The
// text needs no escapes.
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

// parseText parses text into to, which stays unchanged on failure. The empty text is the zero
// value.
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
