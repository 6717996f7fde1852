package dispensarytest

import (
	"fmt"
	"slices"
)

// NewPatient is a person who registers, with the first clinic unless another one is
// named. Names and address are made up where they are empty.
type NewPatient struct {
	FirstName    string
	LastName     string
	Email        string
	DateOfBirth  string
	Gender       string
	MobileNumber string
	ClinicID     string
}

// RegisterPatient lets a person register with a clinic: patient.created.
func (p *Platform) RegisterPatient(in NewPatient) (out Patient, e Event, err error) {
	err = p.act(func(w *world) error {
		n := w.patients.Len() + 1
		row := &Patient{
			ClinicID: or(in.ClinicID, w.clinics.At(0).ID), FirstName: or(in.FirstName, "Robin"), LastName: or(in.LastName, fmt.Sprintf("Newcomer %d", n)),
			Email: or(in.Email, fmt.Sprintf("newcomer-%d@example.org", n)), DateOfBirth: in.DateOfBirth,
			Gender: in.Gender, MobileNumber: in.MobileNumber, Welcomed: true,
		}
		if _, known := w.clinics.Get(row.ClinicID); !known {
			return unknown("RegisterPatient", "clinic", row.ClinicID)
		}
		if err := w.personFits("RegisterPatient", row); err != nil {
			return err
		}
		row.ID = w.newID("patient")
		w.putPatient(row)
		out, e = detached(*row), p.srv.emit(PatientCreated, row.ClinicID, row.ID, w.patientData(row))
		return nil
	})
	return out, e, err
}

// PatientChange is what a patient edits; nil leaves a field as it is, and a
// pointer to "" clears it.
type PatientChange struct {
	FirstName        *string
	LastName         *string
	Email            *string
	DateOfBirth      *string
	Gender           *string
	MobileNumber     *string
	TextNotification *bool
}

// EditPatient lets a patient edit the own details: patient.updated.
func (p *Platform) EditPatient(patientID string, in PatientChange) (out Patient, e Event, err error) {
	err = p.act(func(w *world) error {
		old, known := w.patients.Get(patientID)
		if !known {
			return unknown("EditPatient", "patient", patientID)
		}
		row := *old
		set(&row.FirstName, in.FirstName)
		set(&row.LastName, in.LastName)
		set(&row.Email, in.Email)
		set(&row.DateOfBirth, in.DateOfBirth)
		set(&row.Gender, in.Gender)
		set(&row.MobileNumber, in.MobileNumber)
		set(&row.TextNotification, in.TextNotification)
		// A patient that a dynamic link made has no names to begin with.
		if old.FirstName != "" && row.FirstName == "" || old.LastName != "" && row.LastName == "" {
			return refused("EditPatient", ErrInvalid, "a name cannot be taken away")
		}
		if err := w.personFits("EditPatient", &row); err != nil {
			return err
		}
		w.putPatient(&row)
		out, e = detached(row), p.srv.emit(PatientUpdated, row.ClinicID, row.ID, w.patientData(&row))
		return nil
	})
	return out, e, err
}

// patientData is the event data of a patient, wrapped as the API shows it.
func (w *world) patientData(p *Patient) any {
	return struct {
		Patient patientView `json:"patient"`
	}{w.viewPatient(p)}
}

// personFits holds a patient to the rules of the API.
func (w *world) personFits(action string, p *Patient) error {
	switch {
	case !validEmail(p.Email):
		return refused(action, ErrInvalid, "%q is not an e-mail address", p.Email)
	case w.emailTaken(p.Email, p.ID):
		return refused(action, ErrInvalid, "the e-mail address %q is taken", p.Email)
	case p.DateOfBirth != "" && !validDay(p.DateOfBirth):
		return refused(action, ErrInvalid, "%q is not a date (yyyy-mm-dd)", p.DateOfBirth)
	case p.Gender != "" && !slices.Contains([]string{Male, Female, X}, p.Gender):
		return refused(action, ErrInvalid, "%q is none of the genders", p.Gender)
	case p.MobileNumber != "" && !mobileNumber.MatchString(p.MobileNumber):
		return refused(action, ErrInvalid, "%q is not a number in international form", p.MobileNumber)
	}
	return nil
}

func or(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}
