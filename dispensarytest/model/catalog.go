package model

// Dosage describes how to take a product. All fields are free text.
type Dosage struct {
	Amount         string // a number, a range or a fraction: "1", "1-2", "1/2"
	Frequency      string // for example "twice per day"
	Duration       string // for example "30 days" (empty is null if the API allows null)
	Format         string // for example "capsule"
	AdditionalInfo string
}

// Product is a catalog entry. Patients order its variants. API section: "Product".
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

	// Removed reports whether the product has left the catalog. Orders and plans still refer
	// to it.
	Removed bool `json:",omitempty"`
}

// Variant statuses. API section: "Variant".
const (
	VariantAvailable    = "available"
	VariantBackordered  = "backordered"
	VariantDiscontinued = "discontinued"
	VariantUnavailable  = "unavailable"

	// VariantVendorBackorder means that the manufacturer is out of stock. See the behavior
	// vendor-backorder.
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
	Status        string // one of the variant statuses (empty is null)
	Primary       bool
}
