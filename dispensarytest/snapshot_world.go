package dispensarytest

import "errors"

// file is what the world has that an earlier one has not.
func (w *world) file(before *world) worldFile {
	return worldFile{
		Numbers:           w.numbers,
		Allergens:         changedRows(&w.allergens, &before.allergens),
		Ingredients:       changedRows(&w.ingredients, &before.ingredients),
		SupplementTypes:   changedRows(&w.supplementTypes, &before.supplementTypes),
		Certifications:    changedRows(&w.certifications, &before.certifications),
		PractitionerTypes: changedRows(&w.practitionerTypes, &before.practitionerTypes),
		Brands:            changedRows(&w.brands, &before.brands),
		Products:          changedRows(&w.products, &before.products),
		Variants:          changedRows(&w.variants, &before.variants),
		Categories:        changedRows(&w.categories, &before.categories),
		Clinics:           changedRows(&w.clinics, &before.clinics),
		Patients:          changedRows(&w.patients, &before.patients),
		Practitioners:     changedRows(&w.practitioners, &before.practitioners),
		Staff:             changedRows(&w.staff, &before.staff),
		Addresses:         changedRows(&w.addresses, &before.addresses),
		Plans:             changedRows(&w.plans, &before.plans),
		Protocols:         changedRows(&w.protocols, &before.protocols),
		Orders:            changedRows(&w.orders, &before.orders),
		Events:            changedRows(&w.events, &before.events),
		CustomDosages: changed(&w.customDosages, &before.customDosages, func(d *customDosage) customDosageFile {
			return customDosageFile{d.practitionerID, d.productID, d.dosage}
		}),
		Integrations: changed(&w.integrations, &before.integrations, func(i *integration) integrationFile {
			return integrationFile{i.id, i.clinicID, i.key, i.activated, i.revoked}
		}),
		Users: changed(&w.users, &before.users, func(u *User) userFile { return fileUser(*u) }),
		Carts: changed(&w.carts, &before.carts, func(c *cart) cartFile { return cartFile{c.patientID, c.planID, c.lines} }),
	}
}

// merge takes changes over into a whole world.
func (f *worldFile) merge(changes worldFile) error {
	f.Numbers = changes.Numbers
	return errors.Join(
		f.Allergens.merge(changes.Allergens),
		f.Ingredients.merge(changes.Ingredients),
		f.SupplementTypes.merge(changes.SupplementTypes),
		f.Certifications.merge(changes.Certifications),
		f.PractitionerTypes.merge(changes.PractitionerTypes),
		f.Brands.merge(changes.Brands),
		f.Products.merge(changes.Products),
		f.Variants.merge(changes.Variants),
		f.Categories.merge(changes.Categories),
		f.CustomDosages.merge(changes.CustomDosages),
		f.Clinics.merge(changes.Clinics),
		f.Integrations.merge(changes.Integrations),
		f.Patients.merge(changes.Patients),
		f.Practitioners.merge(changes.Practitioners),
		f.Staff.merge(changes.Staff),
		f.Addresses.merge(changes.Addresses),
		f.Users.merge(changes.Users),
		f.Plans.merge(changes.Plans),
		f.Protocols.merge(changes.Protocols),
		f.Orders.merge(changes.Orders),
		f.Events.merge(changes.Events),
		f.Carts.merge(changes.Carts),
	)
}

// load fills an empty world.
func (w *world) load(f worldFile) {
	w.sortTables()
	term := func(t *Term) string { return t.ID }
	fill(&w.allergens, f.Allergens.Rows, term)
	fill(&w.ingredients, f.Ingredients.Rows, term)
	fill(&w.supplementTypes, f.SupplementTypes.Rows, term)
	fill(&w.certifications, f.Certifications.Rows, term)
	fill(&w.practitionerTypes, f.PractitionerTypes.Rows, func(t *PractitionerType) string { return t.ID })
	fill(&w.brands, f.Brands.Rows, func(b *Brand) string { return b.ID })
	fill(&w.variants, f.Variants.Rows, func(v *Variant) string { return v.ID })
	for _, p := range f.Products.Rows {
		w.putProduct(p)
	}
	fill(&w.categories, f.Categories.Rows, func(k *Category) string { return k.ID })
	fill(&w.clinics, f.Clinics.Rows, func(c *Clinic) string { return c.ID })
	fill(&w.addresses, f.Addresses.Rows, func(a *Address) string { return a.ID })
	fill(&w.plans, f.Plans.Rows, func(p *Plan) string { return p.ID })
	fill(&w.protocols, f.Protocols.Rows, func(p *Protocol) string { return p.ID })
	fill(&w.orders, f.Orders.Rows, func(o *Order) string { return o.ID })
	fill(&w.events, f.Events.Rows, func(e *Event) string { return e.ID })
	for _, d := range f.CustomDosages.Rows {
		id := customDosageID(d.PractitionerID, d.ProductID)
		w.customDosages.put(id, &customDosage{id: id, practitionerID: d.PractitionerID, productID: d.ProductID, dosage: d.Dosage})
	}
	for _, i := range f.Integrations.Rows {
		w.integrations.put(i.ID, &integration{id: i.ID, clinicID: i.ClinicID, key: i.Key, activated: i.Activated, revoked: i.Revoked})
	}
	for _, c := range f.Carts.Rows {
		w.carts.put(c.PatientID, &cart{patientID: c.PatientID, planID: c.PlanID, lines: c.Lines})
	}
	w.loadPeople(f)
}

// loadPeople fills in who has an e-mail address that nobody else may have.
func (w *world) loadPeople(f worldFile) {
	for _, u := range f.Users.Rows {
		user := u.user()
		w.users.put(user.ID, &user)
	}
	for _, p := range f.Practitioners.Rows {
		w.practitioners.put(p.ID, p)
		w.userEmails.put(emailKey(p.Email), p.ID)
	}
	for _, m := range f.Staff.Rows {
		w.staff.put(m.ID, m)
		w.userEmails.put(emailKey(m.Email), m.ID)
	}
	for _, p := range f.Patients.Rows {
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
			ID: a.token.id, Value: a.token.value, ClinicID: a.token.clinicID, Supersedes: a.token.supersedes, Refresh: a.token.refresh,
			Grant: a.grant, Created: a.token.created, Expires: a.expires, Used: a.used, Revoked: a.revoked,
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
		state.access = append(state.access, accessState{grant: a.Grant, expires: a.Expires, used: a.Used, revoked: a.Revoked, token: &accessToken{
			id: a.ID, value: a.Value, allowed: granted(f.Grants[a.Grant].Scopes), clinicID: a.ClinicID,
			created: a.Created, refresh: a.Refresh, supersedes: a.Supersedes,
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
