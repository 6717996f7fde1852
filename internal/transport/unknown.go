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

// reportUnknown tells the hook which members of an answer have no field to go to.
func (x *exchange) reportUnknown(into any) {
	report := x.client.config.UnknownFields
	if report == nil {
		return
	}
	found := map[string]bool{}
	w := unknownWalk{Scanner: jsonscan.Scanner{Data: x.body.Bytes()}, found: found}
	w.value(reflect.TypeOf(into), "", 0)
	if len(found) > 0 {
		report(x.call.Operation.Name, slices.Sorted(maps.Keys(found)))
	}
}

// maxUnknown bounds what one answer reports.
const maxUnknown = 100

// unknownWalk goes through an answer beside the type it decodes into.
type unknownWalk struct {
	jsonscan.Scanner
	found map[string]bool
}

// value walks over the value at Pos. A type that decodes itself is passed over:
// what it knows cannot be told from outside.
func (w *unknownWalk) value(t reflect.Type, path string, depth int) bool {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || reflect.PointerTo(t).Implements(unmarshaler) {
		return w.Value(depth)
	}
	switch first := w.Next(); {
	case first == '{' && t.Kind() == reflect.Struct:
		return w.object(t, path, depth)
	case first == '[' && t.Kind() == reflect.Slice:
		return w.Elements(depth+1, func() bool { return w.value(t.Elem(), path, depth+1) })
	}
	return w.Value(depth)
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func (w *unknownWalk) object(t reflect.Type, path string, depth int) bool {
	fields := fieldsOf(t)
	return w.Members(depth+1, func(key []byte) bool {
		name := string(jsonscan.Unquote(key))
		at := strings.TrimPrefix(path+"."+name, ".")
		field, known := fields[name]
		if !known && len(w.found) < maxUnknown {
			w.found[at] = true
		}
		return w.value(field, at, depth+1)
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
		}
	}
	made, _ := fieldTypes.LoadOrStore(t, fields)
	return made.(map[string]reflect.Type)
}
