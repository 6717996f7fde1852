package people

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Patients performs actions of patients.
type Patients struct{ *actions }

func (p Patients) All() []model.Patient {
	return all(p.actions, func(w *store.World) table.Table[*model.Patient] { return w.Patients })
}

func (p Patients) Get(id string) (model.Patient, bool) {
	return find(p.actions, func(w *store.World) table.Table[*model.Patient] { return w.Patients }, id)
}

func (p Patients) Cart(patientID string) []model.Line {
	c, _ := find(p.actions, func(w *store.World) table.Table[*store.Cart] { return w.Carts }, patientID)
	return slices.Clone(c.Lines)
}

func (p Patients) Create(in model.PatientCreate) (out model.Patient, e model.Event, err error) {
	w, done := p.begin()
	defer done()
	n := len(w.Patients.Rows) + 1
	row := &model.Patient{
		ClinicID: cmp.Or(in.ClinicID, table.At(w.Clinics, 0).ID), FirstName: cmp.Or(in.FirstName, "Robin"), LastName: cmp.Or(in.LastName, fmt.Sprintf("Newcomer %d", n)),
		Email: cmp.Or(in.Email, fmt.Sprintf("newcomer-%d@example.org", n)), DateOfBirth: in.DateOfBirth,
		Gender: in.Gender, MobileNumber: in.MobileNumber, Welcomed: true, CreatedAt: p.Clock.Now(),
	}
	if _, known := w.Clinics.Rows[row.ClinicID]; !known {
		return out, e, store.Unknown("CreatePatient", "clinic", row.ClinicID)
	}
	if err := personFits(w, "CreatePatient", row); err != nil {
		return out, e, err
	}
	row.ID = w.NewID("patient")
	table.Put(&w.Patients, row.ID, row)
	out, e = store.Detached(*row), p.emit(model.EventPatientCreated, row.ClinicID, row.ID, view.PatientData(w, row))
	return out, e, nil
}

func (p Patients) Update(patientID string, in model.PatientUpdate) (out model.Patient, e model.Event, err error) {
	w, done := p.begin()
	defer done()
	old, known := w.Patients.Rows[patientID]
	if !known {
		return out, e, store.Unknown("UpdatePatient", "patient", patientID)
	}
	row := *old
	set(&row.FirstName, in.FirstName)
	set(&row.LastName, in.LastName)
	set(&row.Email, in.Email)
	set(&row.DateOfBirth, in.DateOfBirth)
	set(&row.Gender, in.Gender)
	set(&row.MobileNumber, in.MobileNumber)
	set(&row.TextNotification, in.TextNotification)
	// A patient that a dynamic link created has no names at first.
	if old.FirstName != "" && row.FirstName == "" || old.LastName != "" && row.LastName == "" {
		return out, e, store.Refused("UpdatePatient", model.ErrValidation, "a name cannot be removed")
	}
	if err := personFits(w, "UpdatePatient", &row); err != nil {
		return out, e, err
	}
	table.Put(&w.Patients, row.ID, &row)
	out, e = store.Detached(row), p.emit(model.EventPatientUpdated, row.ClinicID, row.ID, view.PatientData(w, &row))
	return out, e, nil
}

// personFits checks a patient against the rules of the API.
func personFits(w *store.World, action string, p *model.Patient) error {
	switch {
	case !store.ValidEmail(p.Email):
		return store.Refused(action, model.ErrValidation, "%q is not an e-mail address", p.Email)
	case w.EmailTaken(p.Email, p.ID):
		return store.Refused(action, model.ErrValidation, "the e-mail address %q is taken", p.Email)
	case p.DateOfBirth != "" && !store.ValidDay(p.DateOfBirth):
		return store.Refused(action, model.ErrValidation, "%q is not a date (yyyy-mm-dd)", p.DateOfBirth)
	case p.Gender != "" && !slices.Contains([]string{store.GenderMale, store.GenderFemale, store.GenderX}, p.Gender):
		return store.Refused(action, model.ErrValidation, "%q is not a gender of the API", p.Gender)
	case p.MobileNumber != "" && !store.MobileNumber.MatchString(p.MobileNumber):
		return store.Refused(action, model.ErrValidation, "%q is not a number in international form", p.MobileNumber)
	}
	return nil
}
