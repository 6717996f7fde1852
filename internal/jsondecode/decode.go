// Package jsondecode decodes JSON text of the platform into the structs of this module. It is
// several times faster than encoding/json, and lenient:
//
//   - A string field accepts a string, a number or a boolean, as its characters in the text.
//   - A bool field accepts true, false, 1 and 0, also in quotes ("True" and "TRUE" too). The
//     empty string is false.
//   - An int or float field accepts a number with or without quotes. The empty string is 0. An
//     int field accepts 10.0 and 1e1. Infinity does not fit.
//   - A field with the tag alias has a second name. A non-empty value wins over an empty one,
//     and the first name wins over the alias.
//   - A field with the tag unknown collects the members without a field.
//   - If a value does not fit, its field stays zero. A list omits null and any element that
//     does not fit. [Unmarshal] reports these fields and elements.
//
// Otherwise, its results equal the results of encoding/json. In particular, null leaves a
// field unchanged. A fuzz test compares the two.
//
// A [Scanner] reads JSON text without building values.
package jsondecode

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Unmarshal decodes data into the value that into points to, which must be zero. It returns
// the fields and elements that do not fit: at most [MaxInvalid], the first ones and the last
// one. It returns an error if data is not JSON or does not fit as a whole.
func Unmarshal(data []byte, into any) ([]Invalid, error) {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return nil, json.Unmarshal(data, into)
	}
	d := decoder{Scanner: Scanner{Data: data}}
	if len(data) >= worthInterning {
		d.seen = new([64]string)
	}
	if p := planOf(v.Type().Elem()); p.decode(&d, v.Elem(), 0) == decoded && d.End() {
		return locate(data, d.invalid), nil
	}
	v.Elem().SetZero()
	return nil, json.Unmarshal(data, into)
}

// decoder decodes one text.
type decoder struct {
	Scanner

	// seen contains strings that were created for this text, because names of brands, units
	// and states repeat in lists. It is dropped with the decoder, so no value of a response is
	// kept for the next one. It is nil for short texts.
	seen *[64]string

	// block is the memory for short strings. Several strings share one allocation.
	block strings.Builder

	// invalid contains the positions of values that do not fit.
	invalid []int
}

// worthInterning is the text length in bytes from which strings are likely to repeat.
const worthInterning = 4 << 10

// decodeFunc decodes the value at the scanner's position into v.
type decodeFunc func(d *decoder, v reflect.Value, depth int) result

// result is the result of decoding one value.
type result uint8

const (
	malformed result = iota // the text is not JSON
	unfit                   // the scanner is after the value, v is unchanged
	decoded
)

// skip moves past a value that does not fit.
func (d *decoder) skip(depth int) result { return d.past(depth, unfit) }

// past moves past a value and returns r.
func (d *decoder) past(depth int, r result) result {
	if !d.Value(depth) {
		return malformed
	}
	return r
}

// report records that the value at position does not fit. Beyond [MaxInvalid] it keeps the
// last position, because the meta of a list comes at its end and must fit.
func (d *decoder) report(position int) {
	if len(d.invalid) == MaxInvalid {
		d.invalid = d.invalid[:MaxInvalid-1]
	}
	d.invalid = append(d.invalid, position)
}

// decodeSelf passes the value to a type that decodes itself.
func decodeSelf(d *decoder, v reflect.Value, depth int) result {
	d.Next()
	start := d.Pos
	if !d.Value(depth) {
		return malformed
	}
	if v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(d.Data[start:d.Pos]) != nil {
		return unfit
	}
	return decoded
}

// decodeOther decodes one value with encoding/json.
func decodeOther(d *decoder, v reflect.Value, depth int) result {
	d.Next()
	start := d.Pos
	if !d.Value(depth) {
		return malformed
	}
	raw := d.Data[start:d.Pos]
	if !v.IsZero() && json.Unmarshal(raw, reflect.New(v.Type()).Interface()) != nil {
		return unfit // a repeated member
	}
	if json.Unmarshal(raw, v.Addr().Interface()) != nil {
		v.SetZero()
		return unfit
	}
	return decoded
}

// pointerTo decodes through a pointer. null leaves it nil.
func pointerTo(element *plan) decodeFunc {
	return func(d *decoder, v reflect.Value, depth int) result {
		if d.Next() == 'n' {
			v.SetZero()
			return d.past(depth, decoded)
		}
		if !v.IsNil() {
			return element.decode(d, v.Elem(), depth)
		}
		v.Set(reflect.New(v.Type().Elem()))
		r := element.decode(d, v.Elem(), depth)
		if r == unfit {
			v.SetZero()
		}
		return r
	}
}

// sliceOf decodes an array. null leaves the slice nil, and an empty array does not. A repeated
// member is decoded over the first one, as by encoding/json.
func sliceOf(element *plan) decodeFunc {
	return func(d *decoder, v reflect.Value, depth int) result {
		switch d.Next() {
		case 'n':
			v.SetZero()
			return d.past(depth, decoded)
		case '[':
		default:
			return d.skip(depth)
		}
		start, n := d.Pos, 0
		more, ok := d.Open(']', depth+1)
		for more {
			if n == v.Cap() {
				v.Grow(max(4, n, d.moreElements(n, start, depth)))
			}
			if n == v.Len() {
				v.SetLen(n + 1)
			}
			position := d.Pos
			var r result
			if d.Next() == 'n' {
				r = d.skip(depth + 1)
			} else {
				r = element.decode(d, v.Index(n), depth+1)
			}
			switch r {
			case decoded:
				n++
			case unfit:
				d.report(position)
			default:
				return malformed
			}
			more, ok = d.More(']')
		}
		switch {
		case !ok:
			return malformed
		case n == 0:
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		default:
			v.SetLen(n)
		}
		return decoded
	}
}

// maxGrowth is the largest guess of moreElements. A page has 100 elements.
const maxGrowth = 128

// moreElements estimates the number of elements after the first n, which began at start. The
// list is nearly all of a response, and its elements have similar sizes. Lists inside elements
// are short, so it returns 0 for them.
func (d *decoder) moreElements(n, start, depth int) int {
	if n == 0 || depth > 1 {
		return 0
	}
	left := len(d.Data) - d.Pos
	return min(left*n/(d.Pos-start)+n/2, maxGrowth)
}

func decodeString(d *decoder, v reflect.Value, depth int) result {
	first := d.Next()
	start := d.Pos
	switch {
	case first == '"':
		if !d.Text() {
			return malformed
		}
		v.SetString(d.text(d.Unquoted(start)))
		return decoded
	case first == 'n':
		return d.past(depth, decoded)
	case first == '{', first == '[':
		return d.skip(depth)
	case !d.Value(depth):
		return malformed
	}
	v.SetString(d.text(d.Data[start:d.Pos]))
	return decoded
}

func decodeBool(d *decoder, v reflect.Value, depth int) result {
	raw, ok := d.scalar(depth)
	if !ok {
		return malformed
	}
	switch string(raw) {
	case "null":
	case "true", "1", `"true"`, `"1"`, `"True"`, `"TRUE"`:
		v.SetBool(true)
	case "false", "0", `"false"`, `"0"`, `"False"`, `"FALSE"`, `""`:
		v.SetBool(false)
	default:
		return unfit
	}
	return decoded
}

func decodeInt(d *decoder, v reflect.Value, depth int) result {
	text, r := d.number(depth)
	if text == nil {
		return r
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		// Beyond 2^53 neighboring integers are the same float.
		f, err := strconv.ParseFloat(string(text), 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return unfit
		}
		n = int64(f)
	}
	if v.OverflowInt(n) {
		return unfit
	}
	v.SetInt(n)
	return decoded
}

func decodeFloat(d *decoder, v reflect.Value, depth int) result {
	text, r := d.number(depth)
	if text == nil {
		return r
	}
	n, err := strconv.ParseFloat(string(text), v.Type().Bits())
	if err != nil || v.OverflowFloat(n) {
		return unfit
	}
	v.SetFloat(n)
	return decoded
}

var zero = []byte("0")

// number returns the number at the position without its quotes. If there is no number to
// parse, it returns nil and the result of the whole value.
func (d *decoder) number(depth int) ([]byte, result) {
	raw, ok := d.scalar(depth)
	switch {
	case !ok:
		return nil, malformed
	case raw[0] == 'n':
		return nil, decoded
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
		return raw, decoded
	case string(raw) == `""`:
		return zero, decoded
	case raw[0] == '"' && len(bytes.Trim(raw[1:len(raw)-1], "0123456789+-.eE")) == 0:
		return raw[1 : len(raw)-1], decoded
	}
	return nil, unfit
}

// scalar returns the value at the position. It resolves the escapes of a string.
func (d *decoder) scalar(depth int) (raw []byte, ok bool) {
	d.Next()
	start := d.Pos
	if !d.Value(depth) {
		return nil, false
	}
	raw = d.Data[start:d.Pos]
	if raw[0] == '"' && bytes.IndexByte(raw, '\\') >= 0 {
		raw = append(append([]byte{'"'}, Unquote(raw)...), '"')
	}
	return raw, true
}

// maxInterned is the maximum length of a string in seen.
const maxInterned = 32

// text returns inner as a string.
func (d *decoder) text(inner []byte) string {
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

// blockSize is the number of bytes that short strings share in one allocation. Keeping one
// string keeps its whole block, so blockSize is also the maximum cost of keeping one id of a
// page.
const blockSize = 256

// copyOf returns text as a string that does not refer to the response buffer.
func (d *decoder) copyOf(text []byte) string {
	if len(text) > blockSize/2 {
		return string(text)
	}
	if d.block.Cap()-d.block.Len() < len(text) {
		d.block = strings.Builder{}
		d.block.Grow(blockSize)
	}
	start := d.block.Len()
	d.block.Write(text) // fits, so the earlier strings do not move
	return d.block.String()[start:]
}
