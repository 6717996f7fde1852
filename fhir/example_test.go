package fhir_test

import (
	"encoding/json"
	"fmt"
	"log"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/fhir"
)

func ExamplePatientCreate() {
	const fromEHR = `{"resourceType": "Patient", "id": "p1", "birthDate": "1984-03",
		"name": [{"use": "old", "family": "Hill", "given": ["Ada"]}, {"use": "official", "family": "Stone", "given": ["Ada"]}],
		"telecom": [{"system": "email", "value": "ada@ehr.example"}]}`
	var patient fhir.Patient
	if err := json.Unmarshal([]byte(fromEHR), &patient); err != nil {
		log.Fatal(err)
	}
	options := fhir.PatientOptions{SendWelcomeEmail: api.Value(false)}
	_, err := fhir.PatientCreate(patient, options)
	fmt.Println(err)

	patient.BirthDate = "" // go without it
	create, err := fhir.PatientCreate(patient, options)
	fmt.Println(create.FirstName, create.LastName, err)
	// Output:
	// dispensary: Patient.birthDate is not a whole day
	// Ada Stone <nil>
}
