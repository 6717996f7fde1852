package fhir_test

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/fhir"
)

var quiet, numbered = fhir.PatientOptions{SendWelcomeEmail: api.Value(false)}, fhir.PatientOptions{SendWelcomeEmail: api.Value(false), MetadataSystem: "urn:mrn"}

// patient returns Ada with other members.
func patient(t *testing.T, members string) (p fhir.Patient) {
	t.Helper()
	var all map[string]any
	require.NoError(t, json.Unmarshal([]byte(ada), &all))
	require.NoError(t, json.Unmarshal([]byte("{"+members+"}"), &all), members)
	require.NoError(t, json.Unmarshal([]byte(jsonOf(t, all)), &p))
	return p
}

// fields returns the names of the wrong arguments.
func fields(err error) (names []string) {
	wrong, several := errors.AsType[api.ArgumentErrors](err)
	if one, ok := errors.AsType[*api.ArgumentError](err); ok && !several {
		wrong = api.ArgumentErrors{one}
	}
	for _, e := range wrong {
		names = append(names, e.Field)
	}
	return names
}

const ada = `{"resourceType":"Patient","id":"p1","active":true,
	"name":[{"use":"maiden","family":"Old","given":["Ada"]},{"use":"usual","family":"Stone","given":["Addie"]},
		{"use":"official","family":" Stone ","given":[null,"Ada","Mary"],"period":{"start":"2010"}}],
	"telecom":[{"system":"phone","use":"home","value":"+1 503 555 0199"},{"system":"phone","use":"mobile","value":"+1 (503) 555-0123"},
		{"system":"email","use":"work","value":"ada@work.example","rank":1},{"system":"email","use":"old","value":"old@ehr.example","rank":1},
		{"system":"email","value":"last@ehr.example"},{"system":"email","value":"second@ehr.example","rank":2},{"system":"email","use":"home","value":" ada@ehr.example ","rank":1}],
	"identifier":[{"system":"http://hl7.org/fhir/sid/us-ssn","value":"123-45-6789"},{"system":"urn:mrn","use":"old","value":"M0"},
		{"system":"urn:mrn","value":"M-1","period":{"end":"2011"}},{"system":"urn:mrn","value":"M1"},{"system":"urn:mrn","use":"official","value":"M1"}],
	"gender":"other","birthDate":"1984-03-12","extension":[{"url":"x","valueString":"y"}]}`

func TestPatientCreate(t *testing.T) {
	t.Parallel()
	got, err := fhir.PatientCreate(patient(t, ""), fhir.PatientOptions{SendWelcomeEmail: api.Value(true), MetadataSystem: "urn:mrn"})
	require.NoError(t, err)
	assert.Equal(t, clinic.PatientCreate{
		FirstName: "Ada", LastName: "Stone", Email: "ada@ehr.example", MobileNumber: "+15035550123", Gender: clinic.GenderX,
		DateOfBirth: api.Date{Year: 1984, Month: 3, Day: 12}, Metadata: clinic.Metadata{ID: "M1"}, SendWelcomeEmail: api.Value(true),
	}, got)
	for _, unset := range []api.Optional[bool]{{}, api.Null[bool]()} { // the caller must choose
		_, err := fhir.PatientCreate(patient(t, ""), fhir.PatientOptions{SendWelcomeEmail: unset})
		assert.Equal(t, []string{"fhir.PatientOptions.SendWelcomeEmail"}, fields(err))
		assert.Equal(t, 500, api.ProblemOf(err).Status, "the program corrects it")
	}
	_, err = fhir.PatientCreate(patient(t, `"id":""`), quiet)
	assert.Equal(t, []string{"Patient.id"}, fields(err))
}

// Each change of the members makes one element missing or contradictory.
func TestPatientCreateNamesPath(t *testing.T) {
	t.Parallel()
	const phone = `"telecom":[{"system":"email","value":"a@b.example"},{"system":"phone","use":"mobile","value":`
	for change, want := range map[string]string{
		`"birthDate":"1984-03"`:         "Patient.birthDate",
		`"birthDate":"1984"`:            "Patient.birthDate",
		`"birthDate":"1984-02-30"`:      "Patient.birthDate",
		`"gender":"X"`:                  "Patient.gender",
		`"name":[{"given":["Stone"]}]`:  "Patient.name[0].family",
		`"name":[{"family":"Stone"}]`:   "Patient.name[0].given",
		`"name":[{"text":"Ada Stone"}]`: "Patient.name",
		`"name":[{"use":"nickname","family":"Stone","given":["Ada"]}]`:                                                           "Patient.name",
		`"name":[{"use":"temp","family":"Stone","given":["Ada"]}]`:                                                               "Patient.name",
		`"name":[{"use":"official","family":"Stone","given":["Ada"],"period":{"end":"2011"}}]`:                                   "Patient.name",
		`"name":[{"use":"official","family":"Stone","given":["Ada"]},{"use":"official","family":"Stone-Hill","given":["Ada"]}]`:  "Patient.name",
		`"name":[{"use":"usual","family":"Stone","given":["Ada"]},{"use":"usual","family":"Stone","given":["Addie"]}]`:           "Patient.name",
		`"telecom":[{"system":"email","value":" "},{"system":"email","use":"old","value":"a@b.example"}]`:                        "Patient.telecom.where(system='email')",
		`"telecom":[{"system":"email","value":"a@b.example","period":{"end":"2011-02"}},{"system":"url","value":"http://a.de"}]`: "Patient.telecom.where(system='email')",
		phone + `"503-555-0123"}]`: "Patient.telecom[1].value", phone + `"+15035550123 x 12"}]`: "Patient.telecom[1].value",
		phone + `"+44 (0)20 7946 0958"}]`: "Patient.telecom[1].value", phone + `"+1 503"}]`: "Patient.telecom[1].value",
		`"identifier":[{"system":"urn:mrn","value":"M1"},{"system":"urn:mrn","value":"M2"}]`:                                      "Patient.identifier",
		`"identifier":[{"system":"urn:mrn","use":"old","value":"M0"},{"system":"urn:mrn","value":"M-1","period":{"end":"2011"}}]`: "Patient.identifier",
		`"resourceType":"Practitioner"`: "Patient.resourceType", `"active":false`: "Patient.active", `"deceasedBoolean":true`: "Patient.deceased",
		`"deceasedDateTime":"2020"`: "Patient.deceased", `"link":[{"type":"seealso"},{"other":{"reference":"Patient/2"},"type":"replaced-by"}]`: "Patient.link[1]",
	} {
		got, err := fhir.PatientCreate(patient(t, change), numbered)
		require.ErrorIs(t, err, api.ErrArgument, change)
		assert.Equal(t, []string{want}, fields(err), change)
		assert.Equal(t, 422, api.ProblemOf(err).Status, "a person corrects the record: %s", change)
		for _, private := range []string{"Stone", "Ada", "1984", "503", "b.example", "p1", "M1", "6789"} {
			assert.NotContains(t, err.Error(), private, change)
		}
		rejected := slices.Contains([]string{"Patient.resourceType", "Patient.active", "Patient.deceased", "Patient.link[1]"}, want)
		assert.Equal(t, rejected, got == clinic.PatientCreate{}, "everything else is in the result: %s", change)
		assert.Equal(t, rejected || want == "Patient.identifier", got.Metadata == clinic.Metadata{}, change)
	}
}

func TestPublishedPatients(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/patients.json")
	require.NoError(t, err)
	var examples []struct {
		Source  string
		Patient fhir.Patient
		Created json.RawMessage
		Wrong   []string
	}
	require.NoError(t, json.Unmarshal(text, &examples))
	require.Len(t, examples, 14)
	for _, e := range examples {
		got, err := fhir.PatientCreate(e.Patient, quiet)
		assert.ElementsMatch(t, e.Wrong, fields(err), e.Source)
		if e.Created != nil {
			assert.JSONEq(t, string(e.Created), jsonOf(t, got), e.Source)
		}
	}
}

func TestPeriodsIncludeBothEnds(t *testing.T) {
	t.Parallel()
	for period, current := range map[fhir.Period]bool{
		{}: true, {Start: "2000-01-01"}: true, {End: "2000-01-01"}: true, {Start: "1999", End: "2000"}: true, {End: "2000-01"}: true,
		{End: "2000-01-01T00:00:00+02:00"}: true, {End: "1999-12-31"}: false, {End: "1999"}: false, {Start: "2000-01-02"}: false, {Start: "2000-02"}: false,
	} {
		synctest.Test(t, func(t *testing.T) { // on January 1, 2000
			p := patient(t, "")
			p.Name = []fhir.HumanName{{Use: "official", Family: "Stone", Given: []string{"Ada"}, Period: period}}
			p.Telecom[6].Period = period
			got, err := fhir.PatientCreate(p, quiet)
			assert.Equal(t, current, err == nil, period)
			assert.Equal(t, current, got.Email == "ada@ehr.example", period)
		})
	}
}

func TestPatientCreateChooses(t *testing.T) {
	t.Parallel()
	const work = `"telecom":[{"system":"email","use":"work","value":"w@b.example","rank":1}`
	for change, want := range map[string]string{
		`"gender":"unknown"`: `-12","mobile`, work + `]`: `"w@b.example"`, // nothing between date and number
		work + `,{"system":"email","value":"a@b.example"},{"system":"email","value":"c@b.example"}]`: `"a@b.example"`,
	} {
		got, err := fhir.PatientCreate(patient(t, change), quiet)
		require.NoError(t, err, change)
		assert.Contains(t, jsonOf(t, got), want, change)
	}
}
