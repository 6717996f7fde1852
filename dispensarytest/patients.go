package dispensarytest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Patients are the patients of all clinics, and what they do on the platform. Actions make events,
// as on the real platform, and return them; see [Server].
type Patients struct{ actions }

// All returns all patients, in the order they were created.
func (p Patients) All() []model.Patient {
	return all(p.server, func(w *store.World) table.Table[*model.Patient] { return w.Patients })
}

// Get returns a patient by id.
func (p Patients) Get(id string) (model.Patient, bool) {
	return find(p.server, func(w *store.World) table.Table[*model.Patient] { return w.Patients }, id)
}

// Cart returns what a patient is about to order: an in-office checkout fills it.
func (p Patients) Cart(patientID string) []model.Line {
	c, _ := find(p.server, func(w *store.World) table.Table[*store.Cart] { return w.Carts }, patientID)
	return slices.Clone(c.Lines)
}

// Register lets a person register with a clinic: patient.created.
func (p Patients) Register(in model.NewPatient) (out model.Patient, e model.Event, err error) {
	err = transact(p.server, func(w *store.World) error {
		n := len(w.Patients.Rows) + 1
		row := &model.Patient{
			ClinicID: cmp.Or(in.ClinicID, table.At(w.Clinics, 0).ID), FirstName: cmp.Or(in.FirstName, "Robin"), LastName: cmp.Or(in.LastName, fmt.Sprintf("Newcomer %d", n)),
			Email: cmp.Or(in.Email, fmt.Sprintf("newcomer-%d@example.org", n)), DateOfBirth: in.DateOfBirth,
			Gender: in.Gender, MobileNumber: in.MobileNumber, Welcomed: true,
		}
		if _, known := w.Clinics.Rows[row.ClinicID]; !known {
			return model.Unknown("RegisterPatient", "clinic", row.ClinicID)
		}
		if err := personFits(w, "RegisterPatient", row); err != nil {
			return err
		}
		row.ID = w.NewID("patient")
		table.Put(&w.Patients, row.ID, row)
		out, e = store.Detached(*row), p.emit(model.PatientCreated, row.ClinicID, row.ID, view.PatientData(w, row))
		return nil
	})
	return out, e, err
}

// Edit lets a patient edit the own details: patient.updated.
func (p Patients) Edit(patientID string, in model.PatientChange) (out model.Patient, e model.Event, err error) {
	err = transact(p.server, func(w *store.World) error {
		old, known := w.Patients.Rows[patientID]
		if !known {
			return model.Unknown("EditPatient", "patient", patientID)
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
			return model.Refused("EditPatient", model.ErrInvalid, "a name cannot be taken away")
		}
		if err := personFits(w, "EditPatient", &row); err != nil {
			return err
		}
		table.Put(&w.Patients, row.ID, &row)
		out, e = store.Detached(row), p.emit(model.PatientUpdated, row.ClinicID, row.ID, view.PatientData(w, &row))
		return nil
	})
	return out, e, err
}

// personFits holds a patient to the rules of the API.
func personFits(w *store.World, action string, p *model.Patient) error {
	switch {
	case !store.ValidEmail(p.Email):
		return model.Refused(action, model.ErrInvalid, "%q is not an e-mail address", p.Email)
	case w.EmailTaken(p.Email, p.ID):
		return model.Refused(action, model.ErrInvalid, "the e-mail address %q is taken", p.Email)
	case p.DateOfBirth != "" && !store.ValidDay(p.DateOfBirth):
		return model.Refused(action, model.ErrInvalid, "%q is not a date (yyyy-mm-dd)", p.DateOfBirth)
	case p.Gender != "" && !slices.Contains([]string{model.Male, model.Female, model.X}, p.Gender):
		return model.Refused(action, model.ErrInvalid, "%q is none of the genders", p.Gender)
	case p.MobileNumber != "" && !store.MobileNumber.MatchString(p.MobileNumber):
		return model.Refused(action, model.ErrInvalid, "%q is not a number in international form", p.MobileNumber)
	}
	return nil
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}
