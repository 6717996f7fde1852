package transport

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// unencodable returns the fields of a body that JSON cannot carry, such as a day that
// no calendar has; "body" for the body itself. The encoder's own text is not used: it
// may hold the value.
func unencodable(names []string, path string, v reflect.Value) []string {
	if _, err := json.Marshal(v.Interface()); err == nil {
		return names
	}
	before := len(names)
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range reflect.VisibleFields(v.Type()) {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); field.IsExported() && name != "" && name != "-" {
				names = unencodable(names, path+name+".", v.FieldByIndex(field.Index))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			names = unencodable(names, strings.TrimSuffix(path, ".")+"["+strconv.Itoa(i)+"].", v.Index(i))
		}
	}
	if len(names) == before {
		names = append(names, cmp.Or(strings.TrimSuffix(path, "."), "body"))
	}
	return names
}
