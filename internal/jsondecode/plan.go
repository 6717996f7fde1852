package jsondecode

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/internal/jsonscan"
)

// plan says how a type is decoded. It is made when the type is first decoded, so
// that a type may contain itself.
type plan struct {
	of   reflect.Type
	once sync.Once
	made decodeFunc
}

func (p *plan) decode(d *decoder, v reflect.Value, depth int) bool {
	p.once.Do(func() { p.made = decoderOf(p.of) })
	return p.made(d, v, depth)
}

// plans holds the plans by type.
var plans sync.Map

func planOf(t reflect.Type) *plan {
	known, ok := plans.Load(t)
	if !ok {
		known, _ = plans.LoadOrStore(t, &plan{of: t})
	}
	return known.(*plan)
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func decoderOf(t reflect.Type) decodeFunc {
	switch {
	case reflect.PointerTo(t).Implements(unmarshaler):
		return decodeSelf
	case reflect.PointerTo(t).Implements(textUnmarshaler):
		return decodeOther
	}
	switch t.Kind() {
	case reflect.String:
		return decodeString
	case reflect.Bool:
		return decodeBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return decodeInt
	case reflect.Float32, reflect.Float64:
		return decodeFloat
	case reflect.Pointer:
		return pointerTo(planOf(t.Elem()))
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // bytes are base64
			return sliceOf(planOf(t.Elem()))
		}
	case reflect.Struct:
		if fields, ok := fieldsOf(t); ok {
			return fields.decode
		}
	}
	return decodeOther
}

var textUnmarshaler = reflect.TypeFor[interface{ UnmarshalText(text []byte) error }]()

// structPlan decodes an object into a struct.
type structPlan struct {
	fields []fieldPlan // in the order of the struct, which is mostly that of the text
	byName map[string]int
	folded map[string]int // by lower-case name, which encoding/json takes too
}

type fieldPlan struct {
	key   string // the JSON key as it mostly appears in a text: "name":
	index int
	plan  *plan
}

// fieldsOf returns the plan of a struct, and false where its fields need rules
// that only encoding/json knows: embedding, quoted values, names that collide.
func fieldsOf(t reflect.Type) (*structPlan, bool) {
	s := &structPlan{byName: map[string]int{}, folded: map[string]int{}}
	for i := range t.NumField() {
		field := t.Field(i)
		tag := field.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case field.Anonymous, strings.Contains(options, "string"):
			return nil, false
		case !field.IsExported(), tag == "-":
			continue
		case name == "":
			name = field.Name
		}
		if _, twice := s.folded[strings.ToLower(name)]; twice || !isASCII(name) {
			return nil, false
		}
		s.byName[name], s.folded[strings.ToLower(name)] = len(s.fields), len(s.fields)
		s.fields = append(s.fields, fieldPlan{key: `"` + name + `":`, index: i, plan: planOf(field.Type)})
	}
	return s, true
}

func isASCII[T string | []byte](s T) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func (s *structPlan) decode(d *decoder, v reflect.Value, depth int) bool {
	switch d.Next() {
	case 'n':
		return d.Value(depth)
	case '{':
	default:
		return false
	}
	more, ok := d.Open('}', depth+1)
	for next := 0; more; more, ok = d.More('}') {
		if next == len(s.fields) || !d.Skip(s.fields[next].key) {
			key, isKey := d.Key()
			if !isKey {
				return false
			}
			name := jsonscan.Unquote(key)
			at, known := s.find(name)
			if !known {
				// encoding/json folds more than case, to ASCII too.
				if !isASCII(name) || !d.Value(depth+1) {
					return false
				}
				continue
			}
			next = at
		}
		field := &s.fields[next]
		next++
		if !field.plan.decode(d, v.Field(field.index), depth+1) {
			return false
		}
	}
	return ok
}

// find returns the field of an ASCII name, first as it is and then in any case.
func (s *structPlan) find(name []byte) (int, bool) {
	if at, ok := s.byName[string(name)]; ok {
		return at, true
	}
	for _, c := range name {
		switch {
		case c >= utf8.RuneSelf:
			return 0, false
		case c >= 'A' && c <= 'Z':
			at, ok := s.folded[strings.ToLower(string(name))]
			return at, ok
		}
	}
	at, ok := s.folded[string(name)]
	return at, ok
}
