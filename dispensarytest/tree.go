package dispensarytest

import (
	"bytes"
	"encoding/json"
	"slices"
)

// tree is a JSON value whose keys keep their order and whose numbers keep their
// form.
type tree struct {
	kind    byte // '{', '[' or 0 for anything else
	literal []byte
	items   []*tree
	keys    []string // of an object, one for each item
}

func parseTree(body []byte) (*tree, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return readTree(d)
}

func readTree(d *json.Decoder) (*tree, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	delim, nested := token.(json.Delim)
	if !nested {
		return &tree{literal: encodeOne(token)}, nil
	}
	t := &tree{kind: byte(delim)}
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

// encode appends the value's JSON.
func (t *tree) encode(to []byte) []byte {
	if t.kind == 0 {
		return append(to, t.literal...)
	}
	to = append(to, t.kind)
	for i, item := range t.items {
		if i > 0 {
			to = append(to, ',')
		}
		if t.kind == '{' {
			to = append(append(to, encodeOne(t.keys[i])...), ':')
		}
		to = item.encode(to)
	}
	return append(to, t.kind+2) // ']' and '}' stand two after their partners
}

// dropNulls leaves out every key without a value, but for those of meta, which
// the API shows as null.
func (t *tree) dropNulls() {
	for i := 0; i < len(t.items); i++ {
		switch {
		case t.kind == '{' && t.keys[i] == "meta":
		case t.kind == '{' && string(t.items[i].literal) == "null":
			t.keys, t.items = slices.Delete(t.keys, i, i+1), slices.Delete(t.items, i, i+1)
			i--
		default:
			t.items[i].dropNulls()
		}
	}
}
