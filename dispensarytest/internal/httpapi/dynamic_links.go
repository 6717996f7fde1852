package httpapi

import (
	"cmp"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// dynamicLinkView is a link for completing a plan on the platform. API section: "Dynamic
// link".
type dynamicLinkView struct {
	RedirectURL string            `json:"redirect_url"`
	Plan        linkedPlan        `json:"treatment_plan"`
	Patient     *view.PatientView `json:"patient"`
}

type linkedPlan struct {
	ID          string  `json:"id"`
	State       string  `json:"state"`
	AvailableAt *string `json:"available_at"`
}

func (c *call) viewDynamicLink(w *store.World, p *model.Plan) dynamicLinkView {
	answer := dynamicLinkView{
		RedirectURL: c.api.Origin + "/plans/" + p.ID + "/edit",
		Plan:        linkedPlan{ID: p.ID, State: p.State, AvailableAt: view.NullDay(p.AvailableAt)},
	}
	if patient, known := w.Patients.Rows[p.PatientID]; known {
		shown := view.Patient(w, patient)
		shown.Metadata = nil
		// The API shows 0 here, not a boolean.
		shown.TextNotification = 0
		if patient.TextNotification {
			shown.TextNotification = 1
		}
		answer.Patient = &shown
	}
	return answer
}

// newDynamicLink returns a link to the editor of the clinic. The query parameter for the
// clinic is this platform's own choice.
func newDynamicLink(c *call, _ *store.World) (reply, error) {
	return bare(struct {
		RedirectURL string `json:"redirect_url"`
	}{c.api.Origin + "/plans/new?clinic=" + c.clinicID()}), nil
}

func getDynamicLink(c *call, w *store.World) (reply, error) {
	p, err := c.planOf(w, c.arg)
	if err != nil {
		return reply{}, err
	}
	if p.State == model.PlanStateCanceled {
		return reply{}, wrongState("Treatment plan is cancelled")
	}
	return ok(c.viewDynamicLink(w, p)), nil
}

// createDynamicLink creates a draft. It finds the patient by email address or creates one.
func createDynamicLink(c *call, w *store.World) (reply, error) {
	plan := c.form.object("treatment_plan")
	if plan == nil {
		return reply{}, badRequest("param is missing or the value is empty: treatment_plan")
	}
	var self string // an assumption: the API requires only treatment_plan
	if !c.behaviors.LinkNamesPractitioner {
		self = c.practitionerID()
	}
	practitioner := cmp.Or(plan.word("practitioner_id", self == "").is, self)
	if _, known := w.PractitionerOf(c.clinicID(), practitioner); practitioner != "" && !known {
		plan.complain("practitioner_id", "must exist")
	}
	patient, err := c.linkedPatient(w)
	if err != nil {
		return reply{}, err
	}
	p := &model.Plan{ClinicID: c.clinicID(), PractitionerID: practitioner, State: model.PlanStateDraft, CreatedAt: c.now, UpdatedAt: c.now}
	if patient != nil {
		if patient.ID == "" {
			patient.ID = w.NewID("patient")
			table.Put(&w.Patients, patient.ID, patient)
		}
		p.PatientID = patient.ID
	}
	p.ID = w.NewID("treatment_plan")
	table.Put(&w.Plans, p.ID, p)
	return ok(c.viewDynamicLink(w, p)), nil
}

// linkedPatient reads the patient of a link. A patient without an id does not exist yet.
// Assumption: an email address alone is enough for a patient without names, and other fields
// are allowed.
func (c *call) linkedPatient(w *store.World) (*model.Patient, error) {
	f := c.form.object("patient")
	if f == nil {
		return nil, c.form.err()
	}
	p := &model.Patient{ClinicID: c.clinicID(), CreatedAt: c.now}
	readPatient(f, p, false)
	p.Welcomed = f.truth("send_welcome_email").or(true)
	if p.Email == "" && len(*f.errs) == 0 {
		f.complain("email", "can't be blank")
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	if known, exists := w.PatientByEmail(p.Email); exists {
		if known.ClinicID != c.clinicID() {
			return nil, invalid("Patient email has already been taken")
		}
		return known, nil
	}
	return p, c.require(operations.ScopePatientsEdit)
}
