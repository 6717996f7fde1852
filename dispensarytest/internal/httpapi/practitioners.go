package httpapi

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// practitionerView is a practitioner. API section: "Practitioner".
type practitionerView struct {
	ID        string             `json:"id"`
	FirstName string             `json:"first_name"`
	LastName  string             `json:"last_name"`
	Email     string             `json:"email"`
	TypeID    string             `json:"practitioner_type_id"`
	Metadata  *view.MetadataView `json:"metadata"`
}

func viewPractitioner(p *model.Practitioner) practitionerView {
	return practitionerView{
		ID: p.ID, FirstName: p.FirstName, LastName: p.LastName, Email: p.Email,
		TypeID: p.TypeID, Metadata: view.Metadata(p.MetadataID),
	}
}

func listPractitioners(c *Call, w *store.World) (reply, error) {
	return listOf(c, w.Practitioners.Span(store.PractitionersByClinic, c.clinicID()).Created(), viewPractitioner), nil
}

func getPractitioner(c *Call, w *store.World) (reply, error) {
	p, known := w.PractitionerOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	return ok(viewPractitioner(p)), nil
}

func createPractitioner(c *Call, w *store.World) (reply, error) {
	p := &model.Practitioner{ClinicID: c.clinicID()}
	if err := readPractitioner(w, c.form, p, true); err != nil {
		return reply{}, err
	}
	p.ID = w.NewID("practitioner")
	w.MoveUserEmail(p.ID, "", p.Email)
	w.Practitioners.Put(p.ID, p)
	return created(viewPractitioner(p)), nil
}

func updatePractitioner(c *Call, w *store.World) (reply, error) {
	old, known := w.PractitionerOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	p := *old
	// The API lists this argument as required and as the one in the path.
	c.form.text("practitioner_id")
	if err := readPractitioner(w, c.form, &p, false); err != nil {
		return reply{}, err
	}
	w.MoveUserEmail(p.ID, old.Email, p.Email)
	w.Practitioners.Put(p.ID, &p)
	return ok(viewPractitioner(&p)), nil
}

func readPractitioner(w *store.World, f *form, p *model.Practitioner, isNew bool) error {
	readPerson(f, &p.FirstName, &p.LastName, &p.Email, isNew)
	kind := f.word("practitioner_type_id", isNew)
	kind.change(&p.TypeID)
	if _, known := w.PractitionerTypes.Get(kind.is); kind.is != "" && !known {
		f.complain("practitioner_type_id", "must exist")
	}
	readMetadata(f, &p.MetadataID)
	checkUserEmail(w, f, p.Email, p.ID)
	return f.err()
}
