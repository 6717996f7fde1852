package dispensarytest

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// epoch is when the default world was made. It is in the past of every real
// clock, and where a frozen clock may start.
var epoch = time.Date(2026, time.January, 5, 15, 0, 0, 0, time.UTC)

// world is everything one platform knows about clinics and the catalog. Its
// server's lock guards it; rows are replaced, never changed.
type world struct {
	seed    uint64
	region  Region
	numbers map[string]uint64 // how many ids of a kind were given out
	longIDs bool
	size    WorldSize
	base    *world // as it was generated, before anything happened; nil for itself

	allergens         table[Term]
	ingredients       table[Term]
	supplementTypes   table[Term]
	certifications    table[Term]
	practitionerTypes table[PractitionerType]
	brands            table[Brand]
	products          table[Product]
	variants          table[Variant]
	categories        table[Category]
	customDosages     table[customDosage]

	clinics       table[Clinic]
	integrations  table[integration]
	patients      table[Patient]
	practitioners table[Practitioner]
	staff         table[StaffMember]
	addresses     table[Address]
	users         table[User]
	plans         table[Plan]
	protocols     table[Protocol]
	orders        table[Order]
	events        table[Event]
	carts         table[cart]

	patientEmails layers[string, string] // lower-case address to patient id
	userEmails    layers[string, string] // lower-case address to practitioner or staff id

	patientSearch searchIndex
	productSearch searchIndex
}

// cart is what a patient is about to order.
type cart struct {
	patientID string
	planID    string
	lines     []Line
}

// fork returns a world that starts out equal; the two share their rows until one
// of them is written. An origin that nobody has written since its last fork is only
// read.
func (w *world) fork() *world {
	numbers := make(map[string]uint64, len(w.numbers))
	for kind, n := range w.numbers {
		numbers[kind] = n
	}
	return &world{
		seed: w.seed, region: w.region, longIDs: w.longIDs, size: w.size, base: w.base, numbers: numbers,
		allergens:         w.allergens.fork(),
		ingredients:       w.ingredients.fork(),
		supplementTypes:   w.supplementTypes.fork(),
		certifications:    w.certifications.fork(),
		practitionerTypes: w.practitionerTypes.fork(),
		brands:            w.brands.fork(),
		products:          w.products.fork(),
		variants:          w.variants.fork(),
		categories:        w.categories.fork(),
		customDosages:     w.customDosages.fork(),
		clinics:           w.clinics.fork(),
		integrations:      w.integrations.fork(),
		patients:          w.patients.fork(),
		practitioners:     w.practitioners.fork(),
		staff:             w.staff.fork(),
		addresses:         w.addresses.fork(),
		users:             w.users.fork(),
		plans:             w.plans.fork(),
		protocols:         w.protocols.fork(),
		orders:            w.orders.fork(),
		events:            w.events.fork(),
		carts:             w.carts.fork(),
		patientEmails:     w.patientEmails.fork(),
		userEmails:        w.userEmails.fork(),
		patientSearch:     w.patientSearch.fork(),
		productSearch:     w.productSearch.fork(),
	}
}

// newID gives out the next id of a kind.
func (w *world) newID(kind string) string {
	w.numbers[kind]++
	return w.id(kind, w.numbers[kind])
}

// id is the n-th id of a kind.
func (w *world) id(kind string, n uint64) string {
	id := idFor(w.seed, kind, n)
	if w.longIDs {
		return kind[:3] + "_" + id + "." + strconv.FormatUint(n, 36)
	}
	return id
}

// defaultSeed makes the world that most tests share.
const defaultSeed = 1

// Two worlds are built once in a process and forked from then on; starting a
// platform costs a handful of slice headers. The first fork of a world is made
// here: later ones only read it, and may be made at the same time.
var (
	defaultUS     = sync.OnceValue(func() *world { return sealed(buildWorld(defaultSeed, UnitedStates, false)) })
	defaultCanada = sync.OnceValue(func() *world { return sealed(buildWorld(defaultSeed, Canada, false)) })
)

func sealed(w *world) *world { w.fork(); return w }

// newWorld is the world that the settings ask for.
func (s settings) newWorld() *world {
	var base *world
	switch {
	case s.snapshot != nil:
		return s.snapshot.fork()
	case s.seed != defaultSeed || s.compatible != 0:
		base = sealed(buildWorld(s.seed, s.region, s.compatible != 0))
	case s.region == Canada:
		base = defaultCanada()
	default:
		base = defaultUS()
	}
	if s.size != (WorldSize{}) {
		base = base.fork()
		base.enlarge(s.size)
		sealed(base)
	}
	w := base.fork()
	w.base, w.size = base, s.size
	return w
}

// clinic returns the clinic a token works for.
func (w *world) clinic(id string) *Clinic {
	c, _ := w.clinics.get(id)
	return c
}

// patientOf returns a patient of the clinic; others are not known to it.
func (w *world) patientOf(clinicID, id string) (*Patient, bool) {
	p, ok := w.patients.get(id)
	return p, ok && p.ClinicID == clinicID
}

func (w *world) practitionerOf(clinicID, id string) (*Practitioner, bool) {
	p, ok := w.practitioners.get(id)
	return p, ok && p.ClinicID == clinicID
}

// firstPractitioner is the id of a clinic's first practitioner; "" where it has none.
func (w *world) firstPractitioner(clinicID string) string {
	if of := w.practitioners.span(practitionersByClinic, clinicID).created(); of.n > 0 {
		return of.part(0, 1)[0].ID
	}
	return ""
}

// putPatient stores a patient, and how it is found.
func (w *world) putPatient(p *Patient) {
	if old, ok := w.patients.get(p.ID); ok {
		w.patientEmails.remove(emailKey(old.Email))
	}
	w.patients.put(p.ID, p)
	w.patientEmails.put(emailKey(p.Email), p.ID)
	w.patientSearch.put(w.patients.number(p.ID), p.FirstName+"\n"+p.LastName+"\n"+p.Email, []facet{{facetClinic, p.ClinicID}})
}

// putProduct stores a product, and how it is found. Its brand and its variants are
// stored before it.
func (w *world) putProduct(p *Product) {
	w.products.put(p.ID, p)
	text, facets := p.Name, []facet{
		{facetBrand, p.BrandID}, {facetType, p.SupplementTypeID}, {facetComposition, p.SupplementTypeID + " " + strings.Join(p.IngredientIDs, " ")},
	}
	if brand, known := w.brands.get(p.BrandID); known {
		text += "\n" + brand.Name
		if !brand.Restricted {
			facets = append(facets, facet{kind: facetOpen})
		}
	}
	for _, v := range w.productVariants(p) {
		text += "\n" + v.SKU
	}
	for _, list := range []struct {
		kind string
		ids  []string
	}{
		{facetAllergen, p.AllergenIDs}, {facetIngredient, p.IngredientIDs}, {facetCertification, p.CertificationIDs}, {facetCategory, p.CategoryIDs},
	} {
		for _, id := range list.ids {
			facets = append(facets, facet{list.kind, id})
		}
	}
	w.productSearch.put(w.products.number(p.ID), text, facets)
}

func (w *world) patientByEmail(email string) (*Patient, bool) {
	id := w.patientEmails.get(emailKey(email))
	if id == "" {
		return nil, false
	}
	return w.patients.get(id)
}

// emailTaken reports that the address belongs to a patient other than the one
// named.
func (w *world) emailTaken(email, exceptID string) bool {
	id := w.patientEmails.get(emailKey(email))
	return id != "" && id != exceptID
}

// userEmailTaken is emailTaken for practitioners and staff.
func (w *world) userEmailTaken(email, exceptID string) bool {
	id := w.userEmails.get(emailKey(email))
	return id != "" && id != exceptID
}

// moveUserEmail gives an address to a user and frees the one it had. Who has an
// account signs in with the new address from then on.
func (w *world) moveUserEmail(id, from, to string) {
	if from != "" {
		w.userEmails.remove(emailKey(from))
	}
	w.userEmails.put(emailKey(to), id)
	if old, ok := w.users.get(id); ok && old.Email != to {
		changed := *old
		changed.Email = to
		w.users.put(id, &changed)
	}
}

func emailKey(email string) string { return strings.ToLower(strings.TrimSpace(email)) }

// productVariants returns the packs of a product, the primary one first.
func (w *world) productVariants(p *Product) []*Variant {
	variants := make([]*Variant, 0, len(p.VariantIDs))
	for _, id := range p.VariantIDs {
		if v, ok := w.variants.get(id); ok {
			variants = append(variants, v)
		}
	}
	return variants
}

// productStatus is derived: available if any variant is, else backordered if
// any is, else unavailable. API section: "Product".
func (w *world) productStatus(p *Product, reads *readings) string {
	status := VariantUnavailable
	for _, id := range p.VariantIDs {
		v, _ := w.variants.get(id)
		switch {
		case v.Status == VariantAvailable:
			return VariantAvailable
		case v.Status == VariantBackordered, v.Status == VariantVendorBackorder && reads.vendorBackorders:
			status = VariantBackordered
		}
	}
	return status
}

// onSale reports that a product has an available variant.
func (w *world) onSale(p *Product) bool {
	return slices.ContainsFunc(p.VariantIDs, func(id string) bool {
		v, _ := w.variants.get(id)
		return v.Status == VariantAvailable
	})
}

// refreshBrand recomputes whether a brand has anything to sell.
func (w *world) refreshBrand(brandID string) {
	brand, ok := w.brands.get(brandID)
	if !ok {
		return
	}
	available := false
	products := w.products.span(productsByBrand, brandID).created()
	for at := 0; at < products.n && !available; at += chunkSize {
		available = slices.ContainsFunc(products.part(at, min(at+chunkSize, products.n)), w.onSale)
	}
	if available != brand.Available {
		changed := *brand
		changed.Available = available
		w.brands.put(brandID, &changed)
	}
}
