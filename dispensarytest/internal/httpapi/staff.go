package httpapi

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// staffView is a member of the office staff. API section: "Staff".
type staffView struct {
	ID        string             `json:"id"`
	FirstName string             `json:"first_name"`
	LastName  string             `json:"last_name"`
	Email     string             `json:"email"`
	Metadata  *view.MetadataView `json:"metadata"`
}

func viewStaff(m *model.StaffMember) staffView {
	return staffView{ID: m.ID, FirstName: m.FirstName, LastName: m.LastName, Email: m.Email, Metadata: view.Metadata(m.MetadataID)}
}

func listStaff(c *Call, w *store.World) (reply, error) {
	return listOf(c, w.Staff.Span(store.StaffByClinic, c.clinicID()).Created(), viewStaff), nil
}

func getStaff(c *Call, w *store.World) (reply, error) {
	m, known := w.StaffOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	return ok(viewStaff(m)), nil
}

// createStaff needs names and address: an assumption, the API lists no
// arguments.
func createStaff(c *Call, w *store.World) (reply, error) {
	m := &model.StaffMember{ClinicID: c.clinicID()}
	if err := readStaff(w, c.form, m, true); err != nil {
		return reply{}, err
	}
	m.ID = w.NewID("staff")
	w.MoveUserEmail(m.ID, "", m.Email)
	w.Staff.Put(m.ID, m)
	return created(viewStaff(m)), nil
}

func updateStaff(c *Call, w *store.World) (reply, error) {
	old, known := w.StaffOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	m := *old
	if err := readStaff(w, c.form, &m, false); err != nil {
		return reply{}, err
	}
	w.MoveUserEmail(m.ID, old.Email, m.Email)
	w.Staff.Put(m.ID, &m)
	return ok(viewStaff(&m)), nil
}

func readStaff(w *store.World, f *form, m *model.StaffMember, isNew bool) error {
	readPerson(f, &m.FirstName, &m.LastName, &m.Email, isNew)
	readMetadata(f, &m.MetadataID)
	checkUserEmail(w, f, m.Email, m.ID)
	return f.err()
}
