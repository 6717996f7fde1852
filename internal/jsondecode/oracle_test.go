package jsondecode_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/jsondecode"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// same decodes data with both decoders and compares the results. Before encoding/json reads
// the text, strict applies the documented leniency to it.
func same[T any](t *testing.T, data []byte) {
	t.Helper()
	var want, got T
	invalid, err := jsondecode.Unmarshal(data, &got)
	if !json.Valid(data) {
		require.Error(t, err, "%s", data)
		return
	}
	var s strict
	text, fits := s.value(reflect.TypeFor[T](), data, "")
	assert.Equal(t, fits, err == nil, "%s: %v", data, err)
	if !fits {
		return
	}
	require.NoError(t, json.Unmarshal(text, &want), "%s: %s", data, text)
	forget(reflect.ValueOf(&got))
	assert.Equal(t, want, got, "%s: %s", data, text)
	var fields []string
	for _, one := range invalid {
		fields = append(fields, one.Field)
	}
	if n := len(s.invalid); n > jsondecode.MaxInvalid {
		s.invalid = append(s.invalid[:jsondecode.MaxInvalid-1], s.invalid[n-1])
	}
	assert.Equal(t, s.invalid, fields, "%s", data)
}

// forget clears the fields that collect unknown members. encoding/json does not support them.
func forget(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			forget(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			forget(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if _, collects := field.Tag.Lookup("unknown"); collects {
				v.Field(i).SetZero()
			} else if field.IsExported() {
				forget(v.Field(i))
			}
		}
	}
}

// strict rewrites a lenient text for encoding/json and collects the paths of all omitted
// values.
type strict struct{ invalid []string }

func (s *strict) value(t reflect.Type, raw []byte, path string) (text []byte, fits bool) {
	raw = bytes.TrimSpace(raw)
	null := string(raw) == "null"
	fields, isStruct := structFields(t)
	switch {
	case decodesItself(t) || t.Kind() == reflect.Struct && !isStruct:
		return raw, json.Unmarshal(raw, reflect.New(t).Interface()) == nil
	case null:
		return raw, true
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.value(t.Elem(), raw, path)
	case reflect.Struct:
		return s.object(fields, raw, path)
	case reflect.Slice:
		return s.list(t.Elem(), raw, path)
	}
	return scalar(t, raw)
}

func decodesItself(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Map, reflect.Interface, reflect.Array, reflect.Uint16:
		return true
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return true
		}
	}
	return t == reflect.TypeFor[json.Number]() || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func structFields(t reflect.Type) (fields []reflect.StructField, ok bool) {
	if t.Kind() != reflect.Struct {
		return nil, false
	}
	for _, field := range reflect.VisibleFields(t) {
		if field.Anonymous {
			return nil, false
		}
		if field.IsExported() && field.Tag.Get("json") != "-" {
			fields = append(fields, field)
		}
	}
	return fields, true
}

func nameOf(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "" {
		return field.Name
	}
	return name
}

func (s *strict) object(fields []reflect.StructField, raw []byte, path string) ([]byte, bool) {
	if raw[0] != '{' {
		return nil, false
	}
	set := map[string]bool{} // fields with two names: true if the field has a value
	var members []string
	each(raw, func(key string, _ int, value []byte) {
		field, isAlias := fieldOf(fields, key)
		if field == nil {
			return
		}
		text, fits := s.value(field.Type, value, strings.TrimPrefix(path+"."+key, "."))
		if !fits {
			s.invalid = append(s.invalid, strings.TrimPrefix(path+"."+key, "."))
			return
		}
		if _, two := field.Tag.Lookup("alias"); two {
			empty := string(text) == `""` || string(text) == "null"
			if set[field.Name] && (empty || isAlias) {
				return
			}
			set[field.Name] = set[field.Name] || !empty
		}
		members = append(members, quoted(nameOf(*field))+":"+string(text))
	})
	return []byte("{" + strings.Join(members, ",") + "}"), true
}

// fieldOf prefers the exact name, as encoding/json does.
func fieldOf(fields []reflect.StructField, key string) (field *reflect.StructField, isAlias bool) {
	for _, match := range []func(a, b string) bool{func(a, b string) bool { return a == b }, strings.EqualFold} {
		for i := range fields {
			other, two := fields[i].Tag.Lookup("alias")
			if match(nameOf(fields[i]), key) {
				return &fields[i], false
			}
			if two && match(other, key) {
				return &fields[i], true
			}
		}
	}
	return nil, false
}

func (s *strict) list(element reflect.Type, raw []byte, path string) ([]byte, bool) {
	if raw[0] != '[' {
		return nil, false
	}
	var elements []string
	each(raw, func(_ string, index int, value []byte) {
		at := path + "[" + strconv.Itoa(index) + "]"
		text, fits := s.value(element, value, at)
		if !fits || string(bytes.TrimSpace(value)) == "null" {
			s.invalid = append(s.invalid, at)
			return
		}
		elements = append(elements, string(text))
	})
	return []byte("[" + strings.Join(elements, ",") + "]"), true
}

// each calls f for the members of an object or the elements of an array.
func each(raw []byte, f func(key string, index int, value []byte)) {
	d := json.NewDecoder(bytes.NewReader(raw))
	opening, _ := d.Token()
	for i := 0; d.More(); i++ {
		key := ""
		if opening == json.Delim('{') {
			token, _ := d.Token()
			key = token.(string)
		}
		var value json.RawMessage
		_ = d.Decode(&value)
		f(key, i, value)
	}
}

func quoted(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}

func scalar(t reflect.Type, raw []byte) ([]byte, bool) {
	characters := string(raw)
	isString := raw[0] == '"'
	if isString {
		_ = json.Unmarshal(raw, &characters)
	} else if raw[0] == '{' || raw[0] == '[' {
		return nil, false
	}
	text := characters
	switch t.Kind() {
	case reflect.String:
		return []byte(quoted(characters)), true
	case reflect.Bool:
		var ok bool
		text, ok = map[string]string{"true": "true", "1": "true", "false": "false", "0": "false"}[characters]
		if isString && !ok {
			text, ok = map[string]string{"True": "true", "TRUE": "true", "False": "false", "FALSE": "false", "": "false"}[characters]
		}
		return []byte(text), ok
	}
	switch {
	case isString && text == "":
		text = "0"
	case strings.Trim(text, "0123456789+-.eE") != "":
		return nil, false
	}
	f, err := strconv.ParseFloat(text, t.Bits())
	if t.Kind() == reflect.Float64 || t.Kind() == reflect.Float32 {
		return []byte(strconv.FormatFloat(f, 'g', -1, t.Bits())), err == nil
	}
	f, err = strconv.ParseFloat(text, 64)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return []byte(strconv.FormatInt(n, 10)), !reflect.New(t).Elem().OverflowInt(n)
	}
	if err != nil || f != float64(int64(f)) || f > 1<<53 || f < -(1<<53) {
		return nil, false
	}
	return []byte(strconv.FormatInt(int64(f), 10)), !reflect.New(t).Elem().OverflowInt(int64(f))
}

// metadataEntry is an entry of the metadata list.
type metadataEntry struct {
	ID   string          `json:"id"`
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
}

// models has all types of responses and events.
type models struct {
	Products      *[]catalog.Product           `json:"products"`
	Meta          *api.Meta                    `json:"meta"`
	Variant       *catalog.Variant             `json:"variant"`
	Brand         *catalog.Brand               `json:"brand"`
	Type          catalog.PractitionerType     `json:"type"`
	Clinic        *clinic.Clinic               `json:"clinic"`
	Patient       *clinic.Patient              `json:"patient"`
	Patients      []clinic.PatientSummary      `json:"patients"`
	Practitioners []clinic.Practitioner        `json:"practitioners"`
	Staff         []clinic.StaffMember         `json:"staff"`
	Addresses     []clinic.Address             `json:"addresses"`
	Categories    []clinic.Category            `json:"categories"`
	Orders        []clinic.Order               `json:"orders"`
	Metadata      []metadataEntry              `json:"metadata"`
	Plan          *treatmentplans.Plan         `json:"treatment_plan"`
	Plans         []treatmentplans.PlanSummary `json:"treatment_plans"`
	Protocols     []treatmentplans.Protocol    `json:"protocols"`
	//lint:ignore SA1019 responses have it
	Template   treatmentplans.Template     `json:"template"`
	Link       *treatmentplans.DynamicLink `json:"dynamic_links"`
	Checkout   treatmentplans.Checkout     `json:"checkout"`
	Events     []events.Event              `json:"events"`
	Deliveries []events.Delivery           `json:"webhook_deliveries"`
	ClinicKey  events.ClinicKey            `json:"clinic_key"`
}

var modelTexts = []string{
	`{"products":[{"id":17,"name":"Zinc","status":"available","variant_count":"2","brand":{"id":"b","name":"B","prefix":"P"},"primary_variant":{"id":"v","units":90,"msrp":"N/A","primary":"1"},"dosage":null,"custom_dosage":{"amount":1,"recommended_duration":"9"}},null,7],"meta":{"current_page":"1","next_page":null,"total_pages":1.0,"total_count":3}}`,
	`{"variant":{"id":"v","msrp":"12.50","units":null,"product":{"id":"p","brand":{"id":"b"}},"primary":true},"brand":{"id":"b","status":"unavailable"},"type":{"id":"t","code":"ND"}}`,
	`{"clinic":{"id":"c","patient_count":3,"discount":7.5,"integration_activated_at":"2026-03-02T09:00:00.000Z"},"patient":{"id":"p","date_of_birth":"1984-02-29","discount":"1e999","text_message_notification":0,"metadata":{"id":42}},"patients":[{"id":"p"}]}`,
	`{"orders":[{"id":"o","completed_at":"2026-02-04 10:00:00 EST","item_total":"1,250.00","variant_ids":["v",null,{}],"line_items":[{"variant_id":"v","quantity":"x"}]}],"addresses":[{"id":"a","zipcode":12345}],"categories":[{"id":"c","product_count":1e2}]}`,
	`{"treatment_plan":{"id":"t","state":"active","patient":{"id":1},"available_at":"2026-03-02","recommendations":[{"variant_id":"v","refill":"true","units_to_purchase":"3","take_with":"food","dosage":{"recommended_amount":"1","times":[]}}],"metadata":null}}`,
	`{"protocols":[{"id":"p","practitioner":{"id":"r"},"recommendations":[{"refill":1,"quantity_recommended":"2","dosage_amount":1.50}]}],"template":{"id":"t","current_state":"draft"},"dynamic_links":{"redirect_url":"https://a.example","treatment_plan":{"id":"t"},"patient":null},"checkout":{"url":"u"}}`,
	`{"events":[{"id":17,"type":"order.placed","created_at":"x","data":{"a":[1]}},[]],"webhook_deliveries":[{"id":"d","attempt_number":"2","successfully_delivered":"false","response_status":200,"event_payload":{"event":{"id":"e"}}}],"metadata":[{"id":"m","type":"patient","data":{"id":"p"}}],"clinic_key":{"id":5}}`,
	`{"practitioners":[{"id":"r","email":"\u0061@example.com"}],"staff":[{"ID":"s","First_Name":"A"}],"treatment_plans":[{"id":"t","created_at":"2026-03-02T09:00:00\u002B00:00"}]}`,
}

// FuzzUnmarshal compares jsondecode with encoding/json for all shapes and models:
//
//	go test -run '^$' -fuzz FuzzUnmarshal -fuzztime 10m ./internal/jsondecode
func FuzzUnmarshal(f *testing.F) {
	for _, text := range append(texts, modelTexts...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		same[record](t, data)
		same[[]record](t, data)
		same[models](t, data)
	})
}
