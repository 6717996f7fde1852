package dispensarytest

// practitionerView is a practitioner. API section: "Practitioner".
type practitionerView struct {
	ID        string        `json:"id"`
	FirstName string        `json:"first_name"`
	LastName  string        `json:"last_name"`
	Email     string        `json:"email"`
	TypeID    string        `json:"practitioner_type_id"`
	Metadata  *metadataView `json:"metadata"`
}

func viewPractitioner(p *Practitioner) practitionerView {
	return practitionerView{
		ID: p.ID, FirstName: p.FirstName, LastName: p.LastName, Email: p.Email,
		TypeID: p.TypeID, Metadata: viewMetadata(p.MetadataID),
	}
}

func listPractitioners(c *call, w *world) (reply, error) {
	return listOf(c, w.practitioners.Span(practitionersByClinic, c.clinicID()).Created(), viewPractitioner), nil
}

func getPractitioner(c *call, w *world) (reply, error) {
	p, known := w.practitionerOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	return ok(viewPractitioner(p)), nil
}

func createPractitioner(c *call, w *world) (reply, error) {
	p := &Practitioner{ClinicID: c.clinicID()}
	if err := w.readPractitioner(c.form, p, true); err != nil {
		return reply{}, err
	}
	p.ID = w.newID("practitioner")
	w.moveUserEmail(p.ID, "", p.Email)
	w.practitioners.Put(p.ID, p)
	return created(viewPractitioner(p)), nil
}

func updatePractitioner(c *call, w *world) (reply, error) {
	old, known := w.practitionerOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	p := *old
	// The API lists this argument as required and as the one in the path.
	c.form.text("practitioner_id")
	if err := w.readPractitioner(c.form, &p, false); err != nil {
		return reply{}, err
	}
	w.moveUserEmail(p.ID, old.Email, p.Email)
	w.practitioners.Put(p.ID, &p)
	return ok(viewPractitioner(&p)), nil
}

func (w *world) readPractitioner(f *form, p *Practitioner, isNew bool) error {
	readPerson(f, &p.FirstName, &p.LastName, &p.Email, isNew)
	kind := f.word("practitioner_type_id", isNew)
	kind.change(&p.TypeID)
	if _, known := w.practitionerTypes.Get(kind.is); kind.is != "" && !known {
		f.complain("practitioner_type_id", "must exist")
	}
	readMetadata(f, &p.MetadataID)
	w.checkUserEmail(f, p.Email, p.ID)
	return f.err()
}

func (w *world) checkUserEmail(f *form, email, id string) {
	if email != "" && w.userEmailTaken(email, id) {
		f.complain("email", "has already been taken")
	}
}
