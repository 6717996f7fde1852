package dispensarytest

import (
	"errors"
	"maps"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
)

// file is what the world has that the one it was made from has not.
func (w *world) file() worldFile {
	before := w.base
	return worldFile{
		Numbers:           w.numbers,
		Allergens:         table.Changed(&w.allergens, &before.allergens),
		Ingredients:       table.Changed(&w.ingredients, &before.ingredients),
		SupplementTypes:   table.Changed(&w.supplementTypes, &before.supplementTypes),
		Certifications:    table.Changed(&w.certifications, &before.certifications),
		PractitionerTypes: table.Changed(&w.practitionerTypes, &before.practitionerTypes),
		Brands:            table.Changed(&w.brands, &before.brands),
		Products:          table.Changed(&w.products, &before.products),
		Variants:          table.Changed(&w.variants, &before.variants),
		Categories:        table.Changed(&w.categories, &before.categories),
		Clinics:           table.Changed(&w.clinics, &before.clinics),
		Patients:          table.Changed(&w.patients, &before.patients),
		Practitioners:     table.Changed(&w.practitioners, &before.practitioners),
		Staff:             table.Changed(&w.staff, &before.staff),
		Addresses:         table.Changed(&w.addresses, &before.addresses),
		Plans:             table.Changed(&w.plans, &before.plans),
		Protocols:         table.Changed(&w.protocols, &before.protocols),
		Orders:            table.Changed(&w.orders, &before.orders),
		Events:            table.Changed(&w.events, &before.events),
		CustomDosages: table.ChangedRows(&w.customDosages, &before.customDosages, func(d *customDosage) customDosageFile {
			return customDosageFile{d.practitionerID, d.productID, d.dosage}
		}),
		Integrations: table.ChangedRows(&w.integrations, &before.integrations, func(i *integration) integrationFile {
			return integrationFile{i.id, i.clinicID, i.key, i.activated, i.revoked}
		}),
		Users: table.ChangedRows(&w.users, &before.users, func(u *User) userFile { return fileUser(*u) }),
		Carts: table.ChangedRows(&w.carts, &before.carts, func(c *cart) cartFile { return cartFile{c.patientID, c.planID, c.lines} }),
	}
}

// same reports that two states of one world are the same.
func (w *world) same(other *world) bool {
	return maps.Equal(w.numbers, other.numbers) && w.allergens.Same(&other.allergens) && w.ingredients.Same(&other.ingredients) &&
		w.supplementTypes.Same(&other.supplementTypes) && w.certifications.Same(&other.certifications) &&
		w.practitionerTypes.Same(&other.practitionerTypes) && w.brands.Same(&other.brands) && w.products.Same(&other.products) &&
		w.variants.Same(&other.variants) && w.categories.Same(&other.categories) && w.customDosages.Same(&other.customDosages) &&
		w.clinics.Same(&other.clinics) && w.integrations.Same(&other.integrations) && w.patients.Same(&other.patients) &&
		w.practitioners.Same(&other.practitioners) && w.staff.Same(&other.staff) && w.addresses.Same(&other.addresses) &&
		w.users.Same(&other.users) && w.plans.Same(&other.plans) && w.protocols.Same(&other.protocols) &&
		w.orders.Same(&other.orders) && w.events.Same(&other.events) && w.carts.Same(&other.carts)
}

// load brings a generated world to what a file says.
func (w *world) load(f worldFile) {
	w.numbers = f.Numbers
	term := func(t *Term) string { return t.ID }
	fill(&w.allergens, f.Allergens, term)
	fill(&w.ingredients, f.Ingredients, term)
	fill(&w.supplementTypes, f.SupplementTypes, term)
	fill(&w.certifications, f.Certifications, term)
	fill(&w.practitionerTypes, f.PractitionerTypes, func(t *PractitionerType) string { return t.ID })
	fill(&w.brands, f.Brands, func(b *Brand) string { return b.ID })
	fill(&w.variants, f.Variants, func(v *Variant) string { return v.ID })
	fill(&w.categories, f.Categories, func(k *Category) string { return k.ID })
	fill(&w.clinics, f.Clinics, func(c *Clinic) string { return c.ID })
	fill(&w.addresses, f.Addresses, func(a *Address) string { return a.ID })
	fill(&w.plans, f.Plans, func(p *Plan) string { return p.ID })
	fill(&w.protocols, f.Protocols, func(p *Protocol) string { return p.ID })
	fill(&w.orders, f.Orders, func(o *Order) string { return o.ID })
	fill(&w.events, f.Events, func(e *Event) string { return e.ID })
	for _, p := range f.Products {
		w.putProduct(p)
	}
	for _, d := range f.CustomDosages {
		id := customDosageID(d.PractitionerID, d.ProductID)
		w.customDosages.Put(id, &customDosage{id: id, practitionerID: d.PractitionerID, productID: d.ProductID, dosage: d.Dosage})
	}
	for _, i := range f.Integrations {
		w.integrations.Put(i.ID, &integration{id: i.ID, clinicID: i.ClinicID, key: i.Key, activated: i.Activated, revoked: i.Revoked})
	}
	for _, c := range f.Carts {
		w.carts.Put(c.PatientID, &cart{patientID: c.PatientID, planID: c.PlanID, lines: c.Lines})
	}
	w.loadPeople(f)
}

// loadPeople fills in who has an e-mail address that nobody else may have.
func (w *world) loadPeople(f worldFile) {
	for _, p := range f.Practitioners {
		old, _ := w.practitioners.Get(p.ID)
		w.practitioners.Put(p.ID, p)
		if old != nil {
			w.userEmails.Remove(emailKey(old.Email))
		}
	}
	for _, m := range f.Staff {
		old, _ := w.staff.Get(m.ID)
		w.staff.Put(m.ID, m)
		if old != nil {
			w.userEmails.Remove(emailKey(old.Email))
		}
	}
	for _, p := range f.Practitioners { // now that every address is free that somebody gave up
		w.userEmails.Put(emailKey(p.Email), p.ID)
	}
	for _, m := range f.Staff {
		w.userEmails.Put(emailKey(m.Email), m.ID)
	}
	for _, u := range f.Users {
		user := u.user()
		w.users.Put(user.ID, &user)
	}
	w.loadPatients(f.Patients)
}

// loadPatients puts patients who may have an address that another one had.
func (w *world) loadPatients(patients []*Patient) {
	for _, p := range patients {
		if old, known := w.patients.Get(p.ID); known {
			w.patientEmails.Remove(emailKey(old.Email))
		}
	}
	for _, p := range patients {
		w.putPatient(p)
	}
	for _, p := range patients {
		w.patientEmails.Put(emailKey(p.Email), p.ID)
	}
}

func fill[T any](to *table.Table[T], rows []*T, id func(*T) string) {
	for _, row := range rows {
		to.Put(id(row), row)
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
			return state, errors.New("a token without consent")
		}
		state.access = append(state.access, accessState{grant: a.Grant, expires: a.Expires, used: a.Used, revoked: a.Revoked, token: &accessToken{
			id: a.ID, value: a.Value, allowed: granted(f.Grants[a.Grant].Scopes), clinicID: a.ClinicID,
			created: a.Created, refresh: a.Refresh, supersedes: a.Supersedes,
		}})
	}
	for _, grant := range f.Refresh {
		if !known(grant) {
			return state, errors.New("a refresh token without consent")
		}
	}
	for value, c := range f.Codes {
		state.codes[value] = authCode{user: c.User.user(), scopes: c.Scopes, expires: c.Expires}
	}
	return state, nil
}
