// Package jsondecode decodes JSON text into the structs of this module several
// times faster than encoding/json, with exactly the same results.
//
// It knows the shapes that answers of the platform have: structs, slices, pointers,
// strings, numbers, booleans, and types that decode themselves. What it does not know,
// and what does not fit, it leaves to encoding/json, which then also makes the error:
// [Unmarshal] never fails where encoding/json would not, and a fuzz test compares the
// two.
package jsondecode

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/internal/jsonscan"
)

// Unmarshal decodes data into the value that into points to, which must be zero.
func Unmarshal(data []byte, into any) error {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return json.Unmarshal(data, into)
	}
	d := decoder{Scanner: jsonscan.Scanner{Data: data}}
	if len(data) >= worthInterning {
		d.seen = new([64]string)
	}
	if p := planOf(v.Type().Elem()); p.decode(&d, v.Elem(), 0) && d.End() {
		return nil
	}
	v.Elem().SetZero()
	return json.Unmarshal(data, into)
}

// decoder decodes one text.
type decoder struct {
	jsonscan.Scanner

	// seen holds strings that were made for this text: names of brands, units and
	// states repeat in lists. It is dropped with the decoder, so that no value of one
	// answer is kept for the next. Nil for short texts.
	seen *[64]string

	// block is where short strings are copied to, several to an allocation.
	block strings.Builder
}

// worthInterning is the length of a text in which strings are likely to repeat.
const worthInterning = 4 << 10

// decodeFunc decodes the value at the scanner's position into v. It returns false
// where encoding/json has to take over.
type decodeFunc func(d *decoder, v reflect.Value, depth int) bool

// maxInterned is the longest string that is looked for among those seen.
const maxInterned = 32

// text returns what the JSON string says.
func (d *decoder) text(raw []byte) string {
	inner := jsonscan.Unquote(raw)
	if d.seen == nil || len(inner) == 0 || len(inner) > maxInterned {
		return d.copyOf(inner)
	}
	n := len(inner)
	hash := uint(n) ^ uint(inner[0])<<1 ^ uint(inner[n/2])<<3 ^ uint(inner[n-1])<<4
	slot := &d.seen[hash%uint(len(d.seen))]
	if *slot != string(inner) {
		*slot = d.copyOf(inner)
	}
	return *slot
}

// blockSize is how many bytes of strings share an allocation. A string that is kept
// keeps its whole block, so that this is also what one id of a page costs at most.
const blockSize = 256

// copyOf returns text as a string that does not refer to the answer's buffer.
func (d *decoder) copyOf(text []byte) string {
	if len(text) > blockSize/2 {
		return string(text)
	}
	if d.block.Cap()-d.block.Len() < len(text) {
		d.block = strings.Builder{}
		d.block.Grow(blockSize)
	}
	start := d.block.Len()
	d.block.Write(text) // has room: the strings made before stay where they are
	return d.block.String()[start:]
}

func decodeString(d *decoder, v reflect.Value, _ int) bool {
	switch d.Next() {
	case '"':
		start := d.Pos
		if !d.Text() {
			return false
		}
		v.SetString(d.text(d.Data[start:d.Pos]))
		return true
	case 'n':
		return d.Value(0)
	}
	return false
}

func decodeBool(d *decoder, v reflect.Value, depth int) bool {
	first := d.Next()
	if !d.Value(depth) {
		return false
	}
	switch first {
	case 't', 'f':
		v.SetBool(first == 't')
		return true
	}
	return first == 'n'
}

func decodeInt(d *decoder, v reflect.Value, depth int) bool {
	raw, ok := d.number(depth)
	if !ok || raw == nil {
		return ok
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || v.OverflowInt(n) {
		return false
	}
	v.SetInt(n)
	return true
}

func decodeFloat(d *decoder, v reflect.Value, depth int) bool {
	raw, ok := d.number(depth)
	if !ok || raw == nil {
		return ok
	}
	n, err := strconv.ParseFloat(string(raw), v.Type().Bits())
	if err != nil || v.OverflowFloat(n) {
		return false
	}
	v.SetFloat(n)
	return true
}

// number returns the number at the position, nil for null.
func (d *decoder) number(depth int) ([]byte, bool) {
	first := d.Next()
	start := d.Pos
	if !d.Value(depth) {
		return nil, false
	}
	switch {
	case first == 'n':
		return nil, true
	case first == '-' || first >= '0' && first <= '9':
		return d.Data[start:d.Pos], true
	}
	return nil, false
}

// decodeSelf hands the value to a type that decodes itself.
func decodeSelf(d *decoder, v reflect.Value, depth int) bool {
	d.Next()
	start := d.Pos
	return d.Value(depth) && v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(d.Data[start:d.Pos]) == nil
}

// decodeOther leaves one value to encoding/json.
func decodeOther(d *decoder, v reflect.Value, depth int) bool {
	d.Next()
	start := d.Pos
	return d.Value(depth) && json.Unmarshal(d.Data[start:d.Pos], v.Addr().Interface()) == nil
}

// pointerTo decodes through a pointer; null leaves it nil.
func pointerTo(element *plan) decodeFunc {
	return func(d *decoder, v reflect.Value, depth int) bool {
		if d.Next() == 'n' {
			v.SetZero()
			return d.Value(depth)
		}
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return element.decode(d, v.Elem(), depth)
	}
}

// sliceOf decodes an array; null leaves the slice nil, as an empty array does not.
func sliceOf(element *plan) decodeFunc {
	return func(d *decoder, v reflect.Value, depth int) bool {
		switch d.Next() {
		case 'n':
			v.SetZero()
			return d.Value(depth)
		case '[':
		default:
			return false
		}
		if !v.IsNil() {
			return false // a member that comes twice: encoding/json decodes over the first
		}
		start := d.Pos
		more, ok := d.Open(']', depth+1)
		if !more {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for n := 0; more; n++ {
			if n == v.Cap() {
				v.Grow(max(4, n, d.moreElements(n, start, depth)))
			}
			v.SetLen(n + 1)
			if !element.decode(d, v.Index(n), depth+1) {
				return false
			}
			more, ok = d.More(']')
		}
		return ok
	}
}

// maxGrowth bounds how many elements are guessed to follow. A page has 100.
const maxGrowth = 128

// moreElements guesses how many elements follow the n that were read since start: the
// list of an answer is nearly all of it, and its elements are alike. Lists inside
// elements are short, and not guessed.
func (d *decoder) moreElements(n, start, depth int) int {
	if n == 0 || depth > 1 {
		return 0
	}
	left := len(d.Data) - d.Pos
	return min(left*n/(d.Pos-start)+n/2, maxGrowth)
}
