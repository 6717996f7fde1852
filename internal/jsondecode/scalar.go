package jsondecode

import (
	"bytes"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/internal/jsonscan"
)

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
		raw = append(append([]byte{'"'}, jsonscan.Unquote(raw)...), '"')
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
