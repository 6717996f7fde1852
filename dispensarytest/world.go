package dispensarytest

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
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

	allergens         table.Table[Term]
	ingredients       table.Table[Term]
	supplementTypes   table.Table[Term]
	certifications    table.Table[Term]
	practitionerTypes table.Table[PractitionerType]
	brands            table.Table[Brand]
	products          table.Table[Product]
	variants          table.Table[Variant]
	categories        table.Table[Category]
	customDosages     table.Table[customDosage]

	clinics       table.Table[Clinic]
	integrations  table.Table[integration]
	patients      table.Table[Patient]
	practitioners table.Table[Practitioner]
	staff         table.Table[StaffMember]
	addresses     table.Table[Address]
	users         table.Table[User]
	plans         table.Table[Plan]
	protocols     table.Table[Protocol]
	orders        table.Table[Order]
	events        table.Table[Event]
	carts         table.Table[cart]

	patientEmails table.Map[string, string] // lower-case address to patient id
	userEmails    table.Map[string, string] // lower-case address to practitioner or staff id

	patientSearch table.Search
	productSearch table.Search
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
		allergens:         w.allergens.Fork(),
		ingredients:       w.ingredients.Fork(),
		supplementTypes:   w.supplementTypes.Fork(),
		certifications:    w.certifications.Fork(),
		practitionerTypes: w.practitionerTypes.Fork(),
		brands:            w.brands.Fork(),
		products:          w.products.Fork(),
		variants:          w.variants.Fork(),
		categories:        w.categories.Fork(),
		customDosages:     w.customDosages.Fork(),
		clinics:           w.clinics.Fork(),
		integrations:      w.integrations.Fork(),
		patients:          w.patients.Fork(),
		practitioners:     w.practitioners.Fork(),
		staff:             w.staff.Fork(),
		addresses:         w.addresses.Fork(),
		users:             w.users.Fork(),
		plans:             w.plans.Fork(),
		protocols:         w.protocols.Fork(),
		orders:            w.orders.Fork(),
		events:            w.events.Fork(),
		carts:             w.carts.Fork(),
		patientEmails:     w.patientEmails.Fork(),
		userEmails:        w.userEmails.Fork(),
		patientSearch:     w.patientSearch.Fork(),
		productSearch:     w.productSearch.Fork(),
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
	c, _ := w.clinics.Get(id)
	return c
}

// patientOf returns a patient of the clinic; others are not known to it.
func (w *world) patientOf(clinicID, id string) (*Patient, bool) {
	p, ok := w.patients.Get(id)
	return p, ok && p.ClinicID == clinicID
}

func (w *world) practitionerOf(clinicID, id string) (*Practitioner, bool) {
	p, ok := w.practitioners.Get(id)
	return p, ok && p.ClinicID == clinicID
}

// firstPractitioner is the id of a clinic's first practitioner; "" where it has none.
func (w *world) firstPractitioner(clinicID string) string {
	if of := w.practitioners.Span(practitionersByClinic, clinicID).Created(); of.N > 0 {
		return of.Part(0, 1)[0].ID
	}
	return ""
}

// putPatient stores a patient, and how it is found.
func (w *world) putPatient(p *Patient) {
	if old, ok := w.patients.Get(p.ID); ok {
		w.patientEmails.Remove(emailKey(old.Email))
	}
	w.patients.Put(p.ID, p)
	w.patientEmails.Put(emailKey(p.Email), p.ID)
	w.patientSearch.Put(w.patients.Number(p.ID), p.FirstName+"\n"+p.LastName+"\n"+p.Email, []table.Facet{{Kind: facetClinic, ID: p.ClinicID}})
}

// putProduct stores a product, and how it is found. Its brand and its variants are
// stored before it.
func (w *world) putProduct(p *Product) {
	w.products.Put(p.ID, p)
	text, facets := p.Name, []table.Facet{
		{Kind: facetBrand, ID: p.BrandID}, {Kind: facetType, ID: p.SupplementTypeID}, {Kind: facetComposition, ID: p.SupplementTypeID + " " + strings.Join(p.IngredientIDs, " ")},
	}
	if brand, known := w.brands.Get(p.BrandID); known {
		text += "\n" + brand.Name
		if !brand.Restricted {
			facets = append(facets, table.Facet{Kind: facetOpen})
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
			facets = append(facets, table.Facet{Kind: list.kind, ID: id})
		}
	}
	w.productSearch.Put(w.products.Number(p.ID), text, facets)
}

func (w *world) patientByEmail(email string) (*Patient, bool) {
	id := w.patientEmails.Get(emailKey(email))
	if id == "" {
		return nil, false
	}
	return w.patients.Get(id)
}

// emailTaken reports that the address belongs to a patient other than the one
// named.
func (w *world) emailTaken(email, exceptID string) bool {
	id := w.patientEmails.Get(emailKey(email))
	return id != "" && id != exceptID
}

// userEmailTaken is emailTaken for practitioners and staff.
func (w *world) userEmailTaken(email, exceptID string) bool {
	id := w.userEmails.Get(emailKey(email))
	return id != "" && id != exceptID
}

// moveUserEmail gives an address to a user and frees the one it had. Who has an
// account signs in with the new address from then on.
func (w *world) moveUserEmail(id, from, to string) {
	if from != "" {
		w.userEmails.Remove(emailKey(from))
	}
	w.userEmails.Put(emailKey(to), id)
	if old, ok := w.users.Get(id); ok && old.Email != to {
		changed := *old
		changed.Email = to
		w.users.Put(id, &changed)
	}
}

func emailKey(email string) string { return strings.ToLower(strings.TrimSpace(email)) }

// productVariants returns the packs of a product, the primary one first.
func (w *world) productVariants(p *Product) []*Variant {
	variants := make([]*Variant, 0, len(p.VariantIDs))
	for _, id := range p.VariantIDs {
		if v, ok := w.variants.Get(id); ok {
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
		v, _ := w.variants.Get(id)
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
		v, _ := w.variants.Get(id)
		return v.Status == VariantAvailable
	})
}

// refreshBrand recomputes whether a brand has anything to sell.
func (w *world) refreshBrand(brandID string) {
	brand, ok := w.brands.Get(brandID)
	if !ok {
		return
	}
	available := false
	products := w.products.Span(productsByBrand, brandID).Created()
	for at := 0; at < products.N && !available; at += table.ChunkSize {
		available = slices.ContainsFunc(products.Part(at, min(at+table.ChunkSize, products.N)), w.onSale)
	}
	if available != brand.Available {
		changed := *brand
		changed.Available = available
		w.brands.Put(brandID, &changed)
	}
}
