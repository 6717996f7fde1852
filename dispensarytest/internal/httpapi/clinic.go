package httpapi

import (
	"cmp"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/form"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// clinicView is the clinic. API section: "Clinic".
type clinicView struct {
	ID                     string  `json:"id"`
	Name                   string  `json:"name"`
	PatientCount           int     `json:"patient_count"`
	PractitionerCount      int     `json:"practitioner_count"`
	Discount               float64 `json:"discount"`
	DispensaryURL          string  `json:"dispensary_url"`
	IntegrationID          string  `json:"integration_id"`
	IntegrationActivatedAt *string `json:"integration_activated_at"`
}

// getClinic returns the integration of the key in the request. If there is no key, it returns
// the clinic's first integration that is not revoked: an assumption.
func getClinic(c *call, w *store.World) (reply, error) {
	clinic, known := table.Get(w.Clinics, c.clinicID())
	if !known {
		return reply{}, notFound()
	}
	response := clinicView{
		ID: clinic.ID, Name: clinic.Name, Discount: clinic.Discount, DispensaryURL: clinic.DispensaryURL,
		PatientCount:      len(table.Of(w.Patients, store.ByClinic, clinic.ID)),
		PractitionerCount: len(table.Of(w.Practitioners, store.ByClinic, clinic.ID)),
	}
	integration := cmp.Or(w.IntegrationByKey(c.request.Header.Get("X-SVC-Clinic-Key")), w.IntegrationInUse(clinic.ID))
	response.IntegrationID, response.IntegrationActivatedAt = integration.ID, view.NullTime(store.ActivatedAt(integration, c.behaviors))
	return ok(response), nil
}

// addressView is an address. API section: "Address".
type addressView struct {
	ID       string  `json:"id"`
	Address1 string  `json:"address1"`
	Address2 *string `json:"address2"`
	Zipcode  string  `json:"zipcode"`
	City     string  `json:"city"`
	State    string  `json:"state"`
	Country  string  `json:"country"`
}

func listAddresses(c *call, w *store.World, patient *model.Patient) (reply, error) {
	return listOf(c, table.Of(w.Addresses, store.ByPatient, patient.ID), func(a *store.Address) addressView {
		return addressView{
			ID: a.ID, Address1: a.Address1, Address2: view.NullText(a.Address2), Zipcode: a.Zipcode,
			City: a.City, State: a.State, Country: a.Country,
		}
	}), nil
}

func readMetadata(f *form.Form, id *string) {
	metadata := f.Object("metadata")
	switch value, sent := f.Raw("metadata"); {
	case metadata != nil:
		metadata.Text("id").Change(id)
	case sent && value == nil:
		*id = "" // null removes the identifier: an assumption
	}
}

// searchPatients returns patients for whom every word of the query occurs in the first name,
// the last name or the email address. It ignores case.
func searchPatients(c *call, w *store.World) (reply, error) {
	return listOf(c, table.Search(w.Patients, store.ByClinic, c.clinicID(), c.query.get("query")), view.PatientItem), nil
}

func getPatient(c *call, w *store.World, p *model.Patient) (reply, error) {
	return ok(view.Patient(w, p)), nil
}

func createPatient(c *call, w *store.World) (reply, error) {
	p := &model.Patient{ClinicID: c.clinicID(), CreatedAt: c.now}
	readPatient(c.form, p, true)
	p.Welcomed = c.form.Truth("send_welcome_email").Or(true)
	if err := c.check(w.EmailTaken(p.Email, p.ID)); err != nil {
		return reply{}, err
	}
	p.ID = w.NewID("patient")
	table.Put(&w.Patients, p)
	return created(view.Patient(w, p)), nil
}

func updatePatient(c *call, w *store.World, old *model.Patient) (reply, error) {
	p := *old
	readPatient(c.form, &p, false)
	if err := c.check(w.EmailTaken(p.Email, p.ID)); err != nil {
		return reply{}, err
	}
	table.Put(&w.Patients, &p)
	return ok(view.Patient(w, &p)), nil
}

// readPatient reads the fields that were sent.
func readPatient(f *form.Form, p *model.Patient, isNew bool) {
	f.Read(isNew, form.Patient(p)...)
	f.Percent("discount").Change(&p.Discount)
	readMetadata(f, &p.MetadataID)
}

// check returns all errors of the body as a 422. A handler calls it after it has read all of
// its fields and before it changes anything. taken reports whether the e-mail address of the
// person belongs to another one.
func (c *call) check(taken bool) error {
	if taken {
		c.form.Complain("email", form.Taken)
	}
	wrong := slices.Clone(c.form.Errors())
	if c.behaviors.Is(behavior.UnknownFieldsRejected) {
		for _, u := range c.form.Unread() {
			wrong = append(wrong, "Unknown field: "+u.Name)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return invalid(wrong...)
}

func createPractitioner(c *call, w *store.World) (reply, error) {
	p := &model.Practitioner{ClinicID: c.clinicID(), CreatedAt: c.now}
	c.readType(w, p, true)
	return c.saveColleague(w, &w.Practitioners, "practitioner", p)
}

func updatePractitioner(c *call, w *store.World, old *model.Practitioner) (reply, error) {
	p := *old
	// The API lists this argument as required, and as a parameter of the path.
	c.form.Text("practitioner_id")
	c.readType(w, &p, false)
	return c.saveColleague(w, &w.Practitioners, "practitioner", &p)
}

// readType reads the profession of a practitioner.
func (c *call) readType(w *store.World, p *model.Practitioner, isNew bool) {
	kind := c.form.Word("practitioner_type_id", isNew)
	kind.Change(&p.TypeID)
	if _, known := table.Get(w.PractitionerTypes, kind.Is); kind.Is != "" && !known {
		c.form.Complain("practitioner_type_id", form.Unknown)
	}
}

func createStaff(c *call, w *store.World) (reply, error) {
	return c.saveColleague(w, &w.Staff, "staff", &store.Colleague{ClinicID: c.clinicID(), CreatedAt: c.now})
}

func updateStaff(c *call, w *store.World, old *store.Colleague) (reply, error) {
	m := *old
	return c.saveColleague(w, &w.Staff, "staff", &m)
}

// saveColleague reads the fields of a practitioner or a staff member, who is new without an
// id, and stores the row. That new staff members need names and an e-mail address is an
// assumption, because the API lists no arguments.
func (c *call) saveColleague(w *store.World, rows *table.Table[*store.Colleague], kind string, m *store.Colleague) (reply, error) {
	isNew := m.ID == ""
	c.form.Read(isNew, form.Person(&m.FirstName, &m.LastName, &m.Email)...)
	readMetadata(c.form, &m.MetadataID)
	if err := c.check(w.UserEmailTaken(m.Email, m.ID)); err != nil {
		return reply{}, err
	}
	if isNew {
		m.ID = w.NewID(kind)
		table.Put(rows, m)
		return created(view.Colleague(m)), nil
	}
	w.SetUserEmail(m.ID, m.Email)
	table.Put(rows, m)
	return ok(view.Colleague(m)), nil
}

// metadataEntry is an object with the integrator's identifier. API section: "Metadata entry".
type metadataEntry struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data any    `json:"data"`
}

// metadataTypes are the kinds of objects, each with the scope for reading it. The scopes are
// an assumption, and so is staff as a kind.
var metadataTypes = []struct{ name, scope string }{
	{"patient", operations.ScopePatientsRead},
	{"practitioner", operations.ScopeClinicRead},
	{"staff", operations.ScopeClinicRead},
	{"treatment_plan", operations.ScopePatientsRead},
}

// listMetadata requires an id. If there is no type, it searches all types that the token may
// read. Both are assumptions.
func listMetadata(c *call, w *store.World) (reply, error) {
	id := c.query.get("id")
	if id == "" {
		return reply{}, invalid("id can't be blank")
	}
	kind := c.query.oneOf("type", "patient", "practitioner", "staff", "treatment_plan")
	if kind == "" && c.behaviors.Is(behavior.MetadataTypeRequired) {
		return reply{}, invalid("type can't be blank")
	}
	var found []*metadataEntry
	for _, t := range metadataTypes {
		switch {
		case kind == t.name:
			if err := c.require(t.scope); err != nil {
				return reply{}, err
			}
		case kind != "" || !c.token.Has(t.scope):
			continue
		}
		found = append(found, c.withMetadata(w, t.name, id)...)
	}
	return listOf(c, found, func(e *metadataEntry) metadataEntry { return *e }), nil
}

func (c *call) withMetadata(w *store.World, kind, id string) (found []*metadataEntry) {
	add := func(data any, createdAt time.Time) {
		if c.now.Sub(createdAt) < c.behaviors.MetadataLag() {
			return
		}
		found = append(found, &metadataEntry{ID: id, Type: kind, Data: data})
	}
	field := store.ByMetadata(c.clinicID())
	switch kind {
	case "patient":
		for _, p := range table.Of(w.Patients, field, id) {
			add(view.Patient(w, p), p.CreatedAt)
		}
	case "practitioner":
		for _, p := range table.Of(w.Practitioners, field, id) {
			add(view.Colleague(p), p.CreatedAt)
		}
	case "staff":
		for _, m := range table.Of(w.Staff, field, id) {
			add(view.Colleague(m), m.CreatedAt)
		}
	case "treatment_plan":
		outside := c.token.Has(operations.ScopePlanHistory)
		for _, p := range table.Where(table.Of(w.Plans, field, id), func(p *model.Plan) bool { return outside || !p.Outside }) {
			add(c.viewPlan(p), p.CreatedAt)
		}
	}
	return found
}

func listPatientOrders(c *call, w *store.World, patient *model.Patient) (reply, error) {
	return listOf(c, table.Of(w.Orders, store.ByPatient, patient.ID), view.PatientOrder), nil
}

func listOrders(c *call, w *store.World) (reply, error) {
	completed := c.query.days("completed_at")
	patient, plan, number := c.query.get("patient_id"), c.query.get("treatment_plan_id"), c.query.get("order_number")
	rows := table.Of(w.Orders, store.ByClinic, c.clinicID())
	if completed.Set || patient != "" || plan != "" || number != "" {
		rows = table.Where(rows, func(o *model.Order) bool {
			return completed.Holds(o.CompletedAt) && (patient == "" || patient == o.PatientID) &&
				(number == "" || number == o.Number) && (plan == "" || slices.Contains(o.PlanIDs, plan))
		})
	}
	return listOf(c, sorted(c, rows, "completed_at", order[model.Order]{
		"patient_id":        by(func(o *model.Order) string { return o.PatientID }),
		"treatment_plan_id": by(store.OrderPlan),
		"order_number":      by(func(o *model.Order) string { return o.Number }),
		"completed_at":      func(a, b *model.Order) int { return a.CompletedAt.Compare(b.CompletedAt) },
	}), view.OrderItem), nil
}
