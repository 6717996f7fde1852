package clinic_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/clinic"
)

// The exceptions are those of "Patient data" in package api.
func TestPatientPrintsItsID(t *testing.T) {
	t.Parallel()
	patient := clinic.Patient{ID: "p1", FirstName: "marked"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		for _, v := range []any{patient, &patient, []clinic.Patient{patient}, struct{ P clinic.Patient }{patient}, struct{ P *clinic.Patient }{&patient}} {
			assert.Contains(t, fmt.Sprintf(verb, v), "p1", "%s of %T", verb, v)
			assert.NotContains(t, fmt.Sprintf(verb, v), "marked", "%s of %T", verb, v)
		}
	}
	hidden := struct{ p *clinic.Patient }{&patient}
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v", hidden, hidden, hidden), "marked")
	assert.Contains(t, fmt.Sprintf("%s", hidden), "marked", "a pointer is no protection from every verb")
}
