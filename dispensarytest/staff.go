package dispensarytest

// staffView is a member of the office staff. API section: "Staff".
type staffView struct {
	ID        string        `json:"id"`
	FirstName string        `json:"first_name"`
	LastName  string        `json:"last_name"`
	Email     string        `json:"email"`
	Metadata  *metadataView `json:"metadata"`
}

func viewStaff(m *StaffMember) staffView {
	return staffView{ID: m.ID, FirstName: m.FirstName, LastName: m.LastName, Email: m.Email, Metadata: viewMetadata(m.MetadataID)}
}

func (w *world) staffOf(clinicID, id string) (*StaffMember, bool) {
	m, ok := w.staff.Get(id)
	return m, ok && m.ClinicID == clinicID
}

func listStaff(c *call, w *world) (reply, error) {
	return listOf(c, w.staff.Span(staffByClinic, c.clinicID()).Created(), viewStaff), nil
}

func getStaff(c *call, w *world) (reply, error) {
	m, known := w.staffOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	return ok(viewStaff(m)), nil
}

// createStaff needs names and address: an assumption, the API lists no
// arguments.
func createStaff(c *call, w *world) (reply, error) {
	m := &StaffMember{ClinicID: c.clinicID()}
	if err := w.readStaff(c.form, m, true); err != nil {
		return reply{}, err
	}
	m.ID = w.newID("staff")
	w.moveUserEmail(m.ID, "", m.Email)
	w.staff.Put(m.ID, m)
	return created(viewStaff(m)), nil
}

func updateStaff(c *call, w *world) (reply, error) {
	old, known := w.staffOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	m := *old
	if err := w.readStaff(c.form, &m, false); err != nil {
		return reply{}, err
	}
	w.moveUserEmail(m.ID, old.Email, m.Email)
	w.staff.Put(m.ID, &m)
	return ok(viewStaff(&m)), nil
}

func (w *world) readStaff(f *form, m *StaffMember, isNew bool) error {
	readPerson(f, &m.FirstName, &m.LastName, &m.Email, isNew)
	readMetadata(f, &m.MetadataID)
	w.checkUserEmail(f, m.Email, m.ID)
	return f.err()
}
