package transport

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/dispensary-go/dispensary/internal/jsonscan"
)

// unknownFields returns the paths of members of an answer that have no field to go to.
func unknownFields(data []byte, into any) []string {
	u := unknownScanner{Scanner: jsonscan.Scanner{Data: data}, found: map[string]bool{}}
	u.value(reflect.TypeOf(into), "", 0)
	return slices.Sorted(maps.Keys(u.found))
}

// maxUnknown bounds what one answer reports.
const maxUnknown = 100

// unknownScanner reads an answer beside the type it decodes into.
type unknownScanner struct {
	jsonscan.Scanner
	found map[string]bool
}

// value reads the value at Pos. A type that decodes itself is skipped: its members
// are not visible from outside.
func (u *unknownScanner) value(t reflect.Type, path string, depth int) bool {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || reflect.PointerTo(t).Implements(unmarshaler) {
		return u.Value(depth)
	}
	switch first := u.Next(); {
	case first == '{' && t.Kind() == reflect.Struct:
		return u.object(t, path, depth)
	case first == '[' && t.Kind() == reflect.Slice:
		return u.Elements(depth+1, func() bool { return u.value(t.Elem(), path, depth+1) })
	}
	return u.Value(depth)
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func (u *unknownScanner) object(t reflect.Type, path string, depth int) bool {
	fields := fieldsOf(t)
	return u.Members(depth+1, func(key []byte) bool {
		name := string(jsonscan.Unquote(key))
		at := strings.TrimPrefix(path+"."+name, ".")
		field, known := fields[name]
		if !known && len(u.found) < maxUnknown {
			u.found[at] = true
		}
		return u.value(field, at, depth+1)
	})
}

// fieldTypes holds the JSON members of struct types.
var fieldTypes sync.Map

func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if known, ok := fieldTypes.Load(t); ok {
		return known.(map[string]reflect.Type)
	}
	fields := map[string]reflect.Type{}
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.IsExported() && name != "" && name != "-" {
			fields[name] = field.Type
			if alias, ok := field.Tag.Lookup("alias"); ok {
				fields[alias] = field.Type
			}
		}
	}
	made, _ := fieldTypes.LoadOrStore(t, fields)
	return made.(map[string]reflect.Type)
}
