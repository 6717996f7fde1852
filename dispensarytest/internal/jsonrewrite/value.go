package jsonrewrite

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Value is a JSON value whose keys keep their order and whose numbers keep their
// form.
type Value struct {
	kind    byte // '{', '[' or 0 for anything else
	literal []byte
	items   []*Value
	keys    []string // of an object, one for each item
}

func Parse(body []byte) (*Value, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return readTree(d)
}

func readTree(d *json.Decoder) (*Value, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	delim, nested := token.(json.Delim)
	if !nested {
		return &Value{literal: encodeLiteral(token)}, nil
	}
	t := &Value{kind: byte(delim)}
	for d.More() {
		if t.kind == '{' {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			t.keys = append(t.keys, key.(string))
		}
		item, err := readTree(d)
		if err != nil {
			return nil, err
		}
		t.items = append(t.items, item)
	}
	_, err = d.Token() // the closing bracket
	return t, err
}

// Encode appends the value's JSON.
func (t *Value) Encode(to []byte) []byte {
	if t.kind == 0 {
		return append(to, t.literal...)
	}
	to = append(to, t.kind)
	for i, item := range t.items {
		if i > 0 {
			to = append(to, ',')
		}
		if t.kind == '{' {
			to = append(append(to, encodeLiteral(t.keys[i])...), ':')
		}
		to = item.Encode(to)
	}
	return append(to, t.kind+2) // ']' and '}' stand two after their partners
}

// DropNulls leaves out every key without a value, but for those of meta, which
// the API shows as null.
func (t *Value) DropNulls() {
	for i := 0; i < len(t.items); i++ {
		switch {
		case t.kind == '{' && t.keys[i] == "meta":
		case t.kind == '{' && string(t.items[i].literal) == "null":
			t.keys, t.items = slices.Delete(t.keys, i, i+1), slices.Delete(t.items, i, i+1)
			i--
		default:
			t.items[i].DropNulls()
		}
	}
}

// encodeLiteral is the JSON of a text, a number, a truth value or null.
func encodeLiteral(v any) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // tokens of a decoder and texts can be encoded
	}
	return bytes.TrimRight(buf.Bytes(), "\n")
}
