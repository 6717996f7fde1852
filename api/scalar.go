package api

import (
	"bytes"
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
