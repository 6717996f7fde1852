package model

import "slices"

// Term is an entry of one of the catalog's word lists: an allergen, an
// ingredient, a supplement type or a third-party certification.
// API section: "Resources and their fields".
type Term struct {
	ID   string
	Name string
}

// PractitionerType is a profession. API section: "Practitioner type".
type PractitionerType struct {
	ID          string
	Code        string
	Description string
}

// Brand is a maker of products. API section: "Brand".
type Brand struct {
	ID     string
	Name   string
	Prefix string

	// Available tells that at least one product can be ordered; the API calls
	// it the status. The platform keeps it up to date.
	Available bool

	// Restricted brands are open to the clinics of ClinicIDs alone: for others, product
	// search and clinic_permitted leave them out.
	Restricted bool
	ClinicIDs  []string
}

// Permits reports that a brand is open to a clinic.
func (b *Brand) Permits(clinicID string) bool {
	return !b.Restricted || slices.Contains(b.ClinicIDs, clinicID)
}

// Dosage says how to take a product. All fields are free text.
type Dosage struct {
	Amount         string // a number, a range or a fraction: "1", "1-2", "1/2"
	Frequency      string // for example "twice per day"
	Duration       string // for example "30 days"; empty is null where the API allows it
	Format         string // for example "capsule"
	AdditionalInfo string
}

// Product is a catalog entry; what can be ordered are its variants.
// API section: "Product".
type Product struct {
	ID               string
	Name             string
	BrandID          string
	DescriptionHTML  string // empty is null
	Dosage           Dosage
	VariantIDs       []string // the first is the primary one
	SupplementTypeID string
	AllergenIDs      []string
	IngredientIDs    []string
	CertificationIDs []string
	CategoryIDs      []string // of all clinics

	// Removed says that the catalog does not have it any more; orders and plans do.
	Removed bool `json:",omitempty"`
}

// Variant statuses. API section: "Variant".
const (
	VariantAvailable    = "available"
	VariantBackordered  = "backordered"
	VariantDiscontinued = "discontinued"
	VariantUnavailable  = "unavailable"

	// VariantVendorBackorder is short at the maker; see the behavior vendor-backorder.
	VariantVendorBackorder = "vendor backorder"
)

// Variant is one pack of a product. API section: "Variant".
type Variant struct {
	ID            string
	ProductID     string
	SKU           string
	Units         int    // 0 is null
	UnitOfMeasure string // empty is null
	UPC           string // empty is null
	MSRP          Cents
	SupplierSKU   string // empty is null
	Status        string // one of the variant statuses; empty is null
	Primary       bool
}

// Category groups products for a clinic. API section: "Category".
type Category struct {
	ID       string
	Name     string
	ClinicID string
}

// CustomDosage is what one practitioner recommends for a product in place of
// the product's own dosage.
type CustomDosage struct {
	ID             string // practitioner and product
	PractitionerID string
	ProductID      string
	Dosage         Dosage
}

func CustomDosageID(practitionerID, productID string) string {
	return practitionerID + "/" + productID
}
