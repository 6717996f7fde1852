package dispensarytest

import "errors"

// file is the world as it is saved.
func (w *world) file() worldFile {
	return worldFile{
		Numbers: w.numbers, Allergens: rowsOf(&w.allergens), Ingredients: rowsOf(&w.ingredients),
		SupplementTypes: rowsOf(&w.supplementTypes), Certifications: rowsOf(&w.certifications),
		PractitionerTypes: rowsOf(&w.practitionerTypes), Brands: rowsOf(&w.brands), Products: rowsOf(&w.products),
		Variants: rowsOf(&w.variants), Categories: rowsOf(&w.categories), Clinics: rowsOf(&w.clinics),
		Patients: rowsOf(&w.patients), Practitioners: rowsOf(&w.practitioners), Staff: rowsOf(&w.staff),
		Addresses: rowsOf(&w.addresses), Plans: rowsOf(&w.plans), Protocols: rowsOf(&w.protocols),
		Orders: rowsOf(&w.orders), Events: rowsOf(&w.events),
		CustomDosages: collect(w.customDosages.all(), func(d *customDosage) customDosageFile {
			return customDosageFile{d.practitionerID, d.productID, d.dosage}
		}),
		Integrations: collect(w.integrations.all(), func(i *integration) integrationFile {
			return integrationFile{i.id, i.clinicID, i.key, i.activated, i.revoked}
		}),
		Users: collect(w.users.all(), func(u *User) userFile { return fileUser(*u) }),
		Carts: collect(w.carts.all(), func(c *cart) cartFile { return cartFile{c.patientID, c.planID, c.lines} }),
	}
}

// load fills an empty world.
func (w *world) load(f worldFile) {
	w.findByKeys()
	term := func(t *Term) string { return t.ID }
	fill(&w.allergens, f.Allergens, term)
	fill(&w.ingredients, f.Ingredients, term)
	fill(&w.supplementTypes, f.SupplementTypes, term)
	fill(&w.certifications, f.Certifications, term)
	fill(&w.practitionerTypes, f.PractitionerTypes, func(t *PractitionerType) string { return t.ID })
	fill(&w.brands, f.Brands, func(b *Brand) string { return b.ID })
	fill(&w.products, f.Products, func(p *Product) string { return p.ID })
	fill(&w.variants, f.Variants, func(v *Variant) string { return v.ID })
	fill(&w.categories, f.Categories, func(k *Category) string { return k.ID })
	fill(&w.clinics, f.Clinics, func(c *Clinic) string { return c.ID })
	fill(&w.addresses, f.Addresses, func(a *Address) string { return a.ID })
	fill(&w.plans, f.Plans, func(p *Plan) string { return p.ID })
	fill(&w.protocols, f.Protocols, func(p *Protocol) string { return p.ID })
	fill(&w.orders, f.Orders, func(o *Order) string { return o.ID })
	fill(&w.events, f.Events, func(e *Event) string { return e.ID })
	for _, d := range f.CustomDosages {
		id := customDosageID(d.PractitionerID, d.ProductID)
		w.customDosages.put(id, &customDosage{id: id, practitionerID: d.PractitionerID, productID: d.ProductID, dosage: d.Dosage})
	}
	for _, i := range f.Integrations {
		w.integrations.put(i.ID, &integration{id: i.ID, clinicID: i.ClinicID, key: i.Key, activated: i.Activated, revoked: i.Revoked})
	}
	for _, c := range f.Carts {
		w.carts.put(c.PatientID, &cart{patientID: c.PatientID, planID: c.PlanID, lines: c.Lines})
	}
	w.loadPeople(f)
}

// loadPeople fills in who has an e-mail address that nobody else may have.
func (w *world) loadPeople(f worldFile) {
	for _, u := range f.Users {
		user := u.user()
		w.users.put(user.ID, &user)
	}
	for _, p := range f.Practitioners {
		w.practitioners.put(p.ID, p)
		w.userEmails.put(emailKey(p.Email), p.ID)
	}
	for _, m := range f.Staff {
		w.staff.put(m.ID, m)
		w.userEmails.put(emailKey(m.Email), m.ID)
	}
	for _, p := range f.Patients {
		w.putPatient(p)
	}
}

func fill[T any](to *table[T], rows []*T, id func(*T) string) {
	to.grow(len(rows))
	for _, row := range rows {
		to.put(id(row), row)
	}
}

func (s tokenState) file() tokensFile {
	file := tokensFile{Scopes: s.scopes, Issued: s.issued, Refresh: s.refresh, Codes: make(map[string]codeFile, len(s.codes))}
	for _, g := range s.grants {
		file.Grants = append(file.Grants, grantFile{fileUser(g.user), g.scopes, g.revoked, g.obsolete})
	}
	for _, a := range s.access {
		file.Access = append(file.Access, accessFile{
			ID: a.token.id, Value: a.token.value, ClinicID: a.token.clinicID, Supersedes: a.token.supersedes,
			Grant: a.grant, Created: a.token.created, Expires: a.expires, Used: a.used,
		})
	}
	for value, c := range s.codes {
		file.Codes[value] = codeFile{fileUser(c.user), c.scopes, c.expires}
	}
	return file
}

func (f tokensFile) state() (tokenState, error) {
	state := tokenState{scopes: f.Scopes, issued: f.Issued, refresh: f.Refresh, codes: make(map[string]authCode, len(f.Codes))}
	for _, g := range f.Grants {
		state.grants = append(state.grants, grant{user: g.User.user(), scopes: g.Scopes, revoked: g.Revoked, obsolete: g.Obsolete})
	}
	known := func(grant int) bool { return grant >= 0 && grant < len(state.grants) }
	for _, a := range f.Access {
		if !known(a.Grant) {
			return state, errors.New("dispensarytest: loading a snapshot: a token without consent")
		}
		state.access = append(state.access, accessState{grant: a.Grant, expires: a.Expires, used: a.Used, token: &accessToken{
			id: a.ID, value: a.Value, allowed: granted(f.Grants[a.Grant].Scopes), clinicID: a.ClinicID,
			created: a.Created, supersedes: a.Supersedes,
		}})
	}
	for _, grant := range f.Refresh {
		if !known(grant) {
			return state, errors.New("dispensarytest: loading a snapshot: a refresh token without consent")
		}
	}
	for value, c := range f.Codes {
		state.codes[value] = authCode{user: c.User.user(), scopes: c.Scopes, expires: c.Expires}
	}
	return state, nil
}
