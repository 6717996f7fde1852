package redact_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/fhir"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// models are the types that print only their name and id. id is the path of the field with the
// printed id, or empty if no id is printed.
var models = []struct {
	zero any
	id   string
}{
	{clinic.Address{}, "ID"},
	{clinic.PatientCreate{}, "Metadata.ID"},
	{clinic.PractitionerCreate{}, "Metadata.ID"},
	{clinic.StaffMemberCreate{}, "Metadata.ID"},
	{clinic.Order{}, "ID"},
	{clinic.Patient{}, "ID"},
	{clinic.PatientSearchOptions{}, ""},
	{clinic.PatientSummary{}, "ID"},
	{clinic.PatientUpdate{}, ""},
	{clinic.Practitioner{}, "ID"},
	{clinic.PractitionerUpdate{}, ""},
	{clinic.StaffMember{}, "ID"},
	{clinic.StaffMemberUpdate{}, ""},
	{events.Delivery{}, "ID"},
	{events.Event{}, "ID"},
	{events.Typed[catalog.Product]{}, "Event.ID"},
	{events.Typed[clinic.Order]{}, "Event.ID"},
	{events.Typed[clinic.Patient]{}, "Event.ID"},
	{events.Typed[events.ClinicKey]{}, "Event.ID"},
	{events.Typed[treatmentplans.Plan]{}, "Event.ID"},
	{fhir.Annotation{}, ""},
	{fhir.ContactPoint{}, ""},
	{fhir.Dosage{}, ""},
	{fhir.HumanName{}, ""},
	{fhir.Identifier{}, ""},
	{fhir.MedicationRequest{}, "ID"},
	{fhir.Patient{}, "ID"},
	{treatmentplans.Checkout{}, ""},
	{treatmentplans.DynamicLink{}, "TreatmentPlan.ID"},
	{treatmentplans.DynamicLinkPatient{}, ""},
	{treatmentplans.PlanCreate{}, "Metadata.ID"},
	{treatmentplans.DynamicLinkCreate{}, ""},
	{treatmentplans.Plan{}, "ID"},
	{treatmentplans.PlanChoices{}, "Metadata.ID"},
	{treatmentplans.Protocol{}, "ID"},
	{treatmentplans.Recommendation{}, "VariantID"},
	{treatmentplans.RecommendationChoice{}, ""},
	{treatmentplans.PlanSummary{}, "ID"},
	//lint:ignore SA1019 deprecated, but still exported
	{treatmentplans.Template{}, "ID"},
	{treatmentplans.PlanUpdate{}, ""},
}

// harmless are the exported structs that may print their content, with the reason.
var harmless = map[string]string{
	"clinic.Category":                       "contains no personal data",
	"clinic.Clinic":                         "is public information about the clinic",
	"clinic.LineItem":                       "an id and a number",
	"clinic.Metadata":                       "an id",
	"events.ClinicKey":                      "an id",
	"events.DataError":                      "an error with type, id and field",
	"fhir.Chart":                            "ids of the patient and the practitioners",
	"fhir.CodeableConcept":                  "a product of the catalog",
	"fhir.Coding":                           "a product of the catalog",
	"fhir.DispenseRequest":                  "a number of packages",
	"fhir.DoseAndRate":                      "an amount",
	"fhir.PatientLink":                      "a kind of link",
	"fhir.PatientOptions":                   "choices of the program",
	"fhir.Period":                           "two days",
	"fhir.Quantity":                         "an amount",
	"fhir.Range":                            "an amount",
	"fhir.Reference":                        "an id",
	"fhir.Repeat":                           "a rhythm",
	"fhir.Timing":                           "a rhythm",
	"treatmentplans.Dosage":                 "has a field named Format: see TestDosagePrintsItsTypeOnly",
	"treatmentplans.ProtocolRecommendation": "contains no personal data",
	"treatmentplans.PersonRef":              "an id",
	"treatmentplans.UnavailableError":       "contains variants of the catalog",
	"treatmentplans.UnavailableVariant":     "an id and a status of the catalog",
}

// Stand-ins for personal data, as text, number and date.
const (
	canary       = "c4n4ry"
	canaryNumber = 747474
	canaryDate   = "1907-08-09"
)

// timeless omits the time of log lines, because its digits could contain any number.
var timeless = &slog.HandlerOptions{ReplaceAttr: func(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) == 0 && attr.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return attr
}}

// fill sets every field to a canary.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes([]byte(`{"name":"` + canary + `"}`))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(canary)
	case reflect.Int:
		v.SetInt(canaryNumber)
	case reflect.Float64:
		v.SetFloat(canaryNumber)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Struct:
		fillStruct(t, v)
	case reflect.Func: // a hook contains no data
	default:
		t.Fatalf("fill does not support %s yet", v.Type())
	}
}

func fillStruct(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Type() {
	case reflect.TypeFor[api.Date]():
		v.Set(reflect.ValueOf(api.Date{Year: 1907, Month: 8, Day: 9}))
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(1907, 8, 9, 0, 0, 0, 0, time.UTC)))
	default:
		if !v.Type().Field(0).IsExported() {
			fillClosed(t, v)
			return
		}
		for _, field := range v.Fields() {
			fill(t, field)
		}
	}
}

// fillClosed fills a type with unexported fields, such as an Optional, from the first JSON
// text that it accepts.
func fillClosed(t *testing.T, v reflect.Value) {
	t.Helper()
	for _, text := range []string{`"` + canary + `"`, fmt.Sprint(canaryNumber), `"` + canaryDate + `"`, `true`, `{"id":"` + canary + `"}`} {
		if json.Unmarshal([]byte(text), v.Addr().Interface()) == nil {
			return
		}
	}
	t.Fatalf("%s accepts no canary", v.Type())
}

// field returns the field at a path of names.
func field(v reflect.Value, path string) reflect.Value {
	for name := range strings.SplitSeq(path, ".") {
		v = v.FieldByName(name)
	}
	return v
}

func TestModelsPrintTypeAndIDOnly(t *testing.T) {
	t.Parallel()
	for _, model := range models {
		kind := reflect.TypeOf(model.zero)
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			v := reflect.New(kind).Elem()
			fill(t, v)
			if model.id != "" {
				field(v, model.id).SetString("id-7")
			}
			if what := v.FieldByName("Type"); what.IsValid() {
				what.SetString("kind-7") // an event prints its type beside its id
			}
			text := printed(v)
			requireSilent(t, text)
			if strings.Contains(text, "kind-7") {
				assert.Contains(t, kind.PkgPath(), "events")
			} else {
				assert.Contains(t, text, kind.String()+"(")
			}
			assert.Equal(t, model.id != "", strings.Contains(text, "id-7"), "the id")
		})
	}
}

// printed writes a value in every way that a program may use. It leaves out two cases: fmt
// prints an unexported field of another package's struct without calling a method, and a JSON
// log encodes lists and structs completely, as JSON does everywhere.
func printed(v reflect.Value) string {
	value, pointer := v.Interface(), v.Addr().Interface()
	slice := reflect.MakeSlice(reflect.SliceOf(v.Type()), 0, 1)
	slice = reflect.Append(slice, v)
	holders := []any{
		value, pointer, slice.Interface(), []any{value, pointer}, map[string]any{"key": value, "pointer": pointer},
		struct {
			Value, Pointer any
		}{value, pointer},
		&struct{ Value any }{value},
	}
	var out strings.Builder
	for _, held := range holders {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%t", "%o", "%08b", "%e", "%10.3s", "%U", "%T"} {
			fmt.Fprintf(&out, verb+"\n", held)
		}
		fmt.Fprintln(&out, held)
		slog.New(slog.NewTextHandler(&out, timeless)).Info("text", "value", held, slog.Group("group", "value", held))
	}
	fmt.Fprintf(&out, "%v", fmt.Errorf("wrapped %v", pointer))
	json := slog.New(slog.NewJSONHandler(&out, timeless))
	json.Info("json", "value", value, "pointer", pointer, slog.Group("group", "value", value))
	json.With("value", value).WithGroup("group").Info("json", "pointer", pointer)
	return out.String()
}

// requireSilent fails if text contains a canary in any form.
func requireSilent(t *testing.T, text string) {
	t.Helper()
	for _, form := range []string{
		canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary), fmt.Sprintf("% x", canary), strings.Trim(fmt.Sprint([]byte(canary)), "[]"),
		fmt.Sprint(canaryNumber), fmt.Sprintf("%x", canaryNumber), canaryDate, "1907",
	} {
		if at := strings.Index(text, form); at >= 0 {
			t.Fatalf("text contains %q: …%s", form, text[max(0, at-150):min(len(text), at+50)])
		}
	}
}

// A dosage cannot have a method named Format, because it has a field with that name. It prints
// no data with the common verbs, and vet reports the others.
func TestDosagePrintsItsTypeOnly(t *testing.T) {
	t.Parallel()
	dosage := treatmentplans.Dosage{Amount: canary, AdditionalInfo: canary}
	var out strings.Builder
	for _, held := range []any{dosage, &dosage, []treatmentplans.Dosage{dosage}, map[string]any{"key": dosage}} {
		fmt.Fprintf(&out, "%v %+v %#v %s %q", held, held, held, held, held)
		slog.New(slog.NewTextHandler(&out, timeless)).Info("text", "value", held)
	}
	slog.New(slog.NewJSONHandler(&out, timeless)).Info("json", "value", dosage, "pointer", &dosage)
	requireSilent(t, out.String())
	assert.Contains(t, out.String(), "treatmentplans.Dosage")
}

// Every exported struct of the packages with personal data is in one of the lists above, so
// each new type needs a decision.
func TestEveryModelIsListed(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, model := range models {
		name, _, _ := strings.Cut(reflect.TypeOf(model.zero).String(), "[")
		known[name] = true
	}
	declared := map[string]bool{}
	for _, folder := range []string{"clinic", "events", "fhir", "treatmentplans"} {
		for _, name := range structs(t, filepath.Join("..", "..", folder)) {
			name = folder + "." + name
			declared[name] = true
			// List options contain ids, days and orders.
			if !known[name] && harmless[name] == "" && !strings.HasSuffix(name, "ListOptions") {
				t.Errorf("%s prints its content: add Format and LogValue, or list it in harmless with the reason", name)
			}
		}
	}
	for name := range known {
		assert.True(t, declared[name], "%s does not exist", name)
	}
	for name := range harmless {
		assert.True(t, declared[name], "%s does not exist", name)
	}
}

// structs returns the exported structs of a package that contain exported fields. A service
// contains only other services.
func structs(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, entry.Name()), nil, 0)
		require.NoError(t, err)
		for node := range ast.Preorder(file) {
			spec, isType := node.(*ast.TypeSpec)
			if !isType || !spec.Name.IsExported() {
				continue
			}
			if kind, isStruct := spec.Type.(*ast.StructType); isStruct && !isService(kind) {
				names = append(names, spec.Name.Name)
			}
		}
	}
	require.NotEmpty(t, names)
	return names
}

// isService reports whether a struct calls the platform, which means that it contains the
// transport.
func isService(kind *ast.StructType) bool {
	for _, f := range kind.Fields.List {
		if star, ok := f.Type.(*ast.StarExpr); ok {
			if selector, ok := star.X.(*ast.SelectorExpr); ok && fmt.Sprint(selector.X) == "transport" {
				return true
			}
		}
	}
	return false
}
