package jsondecode

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"unicode/utf8"
)

// plan contains the decoder of a type. The decoder is created when the type is first decoded,
// so a type may contain itself.
type plan struct {
	of   reflect.Type
	once sync.Once
	made decodeFunc
}

func (p *plan) decode(d *decoder, v reflect.Value, depth int) result {
	p.once.Do(func() { p.made = decoderOf(p.of) })
	return p.made(d, v, depth)
}

// plans contains the plan of each type.
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
	case t == reflect.TypeFor[json.Number]():
		return decodeOther
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
	fields  []fieldPlan // in struct order, usually the order of the text too
	byName  map[string]int
	folded  map[string]int // by lower-case name: encoding/json ignores case too
	unknown int            // index of the field for unknown members, or -1
}

type fieldPlan struct {
	key   string // the JSON key in its usual form: "name":
	index int
	plan  *plan

	spelling spelling
	leaf     decodeFunc // if the type cannot contain the struct, else nil
}

// spelling distinguishes the two names of a field with an alias.
type spelling uint8

const (
	only spelling = iota
	first
	alias
)

// fieldsOf returns the plan of a struct. It returns false if only encoding/json knows the
// rules for its fields: embedding, quoted values, colliding names.
func fieldsOf(t reflect.Type) (*structPlan, bool) {
	s := &structPlan{byName: map[string]int{}, folded: map[string]int{}, unknown: -1}
	var aliases []fieldPlan
	for i := range t.NumField() {
		field := t.Field(i)
		tag := field.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		_, collects := field.Tag.Lookup("unknown")
		switch {
		case collects:
			s.unknown = i
			continue
		case field.Anonymous, strings.Contains(options, "string"):
			return nil, false
		case !field.IsExported(), tag == "-":
			continue
		case name == "":
			name = field.Name
		}
		made := fieldPlan{key: `"` + name + `":`, index: i, plan: planOf(field.Type)}
		if other, ok := field.Tag.Lookup("alias"); ok && field.Type.Kind() == reflect.String {
			made.spelling = first
			aliases = append(aliases, fieldPlan{key: `"` + other + `":`, index: i, plan: made.plan, spelling: alias})
		} else if isLeaf(field.Type) {
			made.leaf = decoderOf(field.Type)
		}
		if !s.add(made) {
			return nil, false
		}
	}
	for _, made := range aliases {
		if !s.add(made) {
			return nil, false
		}
	}
	return s, true
}

func isLeaf(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Struct:
		return reflect.PointerTo(t).Implements(unmarshaler)
	}
	return true
}

// add appends a field. It returns false if the name collides or is not ASCII.
func (s *structPlan) add(f fieldPlan) bool {
	name := f.name()
	if _, twice := s.folded[strings.ToLower(name)]; twice || !isASCII(name) {
		return false
	}
	s.byName[name], s.folded[strings.ToLower(name)] = len(s.fields), len(s.fields)
	s.fields = append(s.fields, f)
	return true
}

func (f *fieldPlan) name() string { return f.key[1 : len(f.key)-2] }

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func (s *structPlan) decode(d *decoder, v reflect.Value, depth int) result {
	switch d.Next() {
	case 'n':
		return d.past(depth, decoded)
	case '{':
	default:
		return d.skip(depth)
	}
	more, ok := d.Open('}', depth+1)
	var given uint64 // bit set of fields with two names, by index: set if the field has a value
	for next := 0; more; more, ok = d.More('}') {
		if next == len(s.fields) || !d.Skip(s.fields[next].key) {
			key, isKey := d.Key()
			if !isKey {
				return malformed
			}
			at, known := s.find(Unquote(key))
			if !known {
				if !s.skipUnknown(d, v, key, depth+1) {
					return malformed
				}
				continue
			}
			next = at
		}
		field := &s.fields[next]
		next++
		position := d.Pos
		var r result
		switch {
		case field.leaf != nil:
			r = field.leaf(d, v.Field(field.index), depth+1)
		case field.spelling == only:
			r = field.plan.decode(d, v.Field(field.index), depth+1)
		default:
			r = field.decodeEither(d, v.Field(field.index), depth+1, &given)
		}
		switch r {
		case malformed:
			return malformed
		case unfit:
			d.report(position)
		}
	}
	if !ok {
		return malformed
	}
	return decoded
}

// decodeEither decodes a field with two names. given contains the fields of the object that
// have a value.
func (f *fieldPlan) decodeEither(d *decoder, v reflect.Value, depth int, given *uint64) result {
	before := v.String()
	r := f.plan.decode(d, v, depth)
	switch bit := uint64(1) << f.index; {
	case *given&bit != 0 && (f.spelling == alias || v.String() == ""):
		v.SetString(before)
	case v.String() != "" && r == decoded:
		*given |= bit
	}
	return r
}

// skipUnknown moves past the value of a member without a field. It appends the member to the
// field that collects unknown members.
func (s *structPlan) skipUnknown(d *decoder, v reflect.Value, key []byte, depth int) bool {
	d.Next()
	start := d.Pos
	if !d.Value(depth) {
		return false
	}
	if s.unknown >= 0 {
		members := v.Field(s.unknown)
		comma := ""
		if members.Len() > 0 {
			comma = ","
		}
		members.SetString(members.String() + comma + strings.ToValidUTF8(string(key)+":"+string(d.Data[start:d.Pos]), "\uFFFD"))
	}
	return true
}

// find returns the field with a name. An exact match wins over a match that ignores case.
func (s *structPlan) find(name []byte) (int, bool) {
	if at, ok := s.byName[string(name)]; ok {
		return at, true
	}
	upper := false
	for _, c := range name {
		if c >= utf8.RuneSelf {
			return s.findFolded(string(name))
		}
		upper = upper || c >= 'A' && c <= 'Z'
	}
	if upper {
		name = bytes.ToLower(name)
	}
	at, ok := s.folded[string(name)]
	return at, ok
}

// findFolded returns the field with a name beyond ASCII. Some of its letters can equal ASCII
// letters without case, for example the Kelvin sign.
func (s *structPlan) findFolded(name string) (int, bool) {
	for i := range s.fields {
		if strings.EqualFold(s.fields[i].name(), name) {
			return i, true
		}
	}
	return 0, false
}
