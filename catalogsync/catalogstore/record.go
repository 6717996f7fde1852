package catalogstore

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
)

// Presence is the state of a product in the platform's list.
type Presence string

// A present product was in the list when it was last read. A missing product was not seen by
// the last complete walk. Searches still find it, because a changing list may hide it from a
// walk. A product is gone if the next complete walk does not see it either and the platform
// does not have its id.
const (
	PresencePresent Presence = "present"
	PresenceMissing Presence = "missing"
	PresenceGone    Presence = "gone"
)

// Attributes are the ingredients and allergens of a product, for filters. The API does not
// return them with a product. Package catalogsync learns them by searching for each one.
type Attributes struct {
	IngredientIDs []string `json:"ingredient_ids,omitempty"`
	AllergenIDs   []string `json:"allergen_ids,omitempty"`
}

// Record is a product in a [Store].
type Record struct {
	// Product contains the fields that lists show. The fields of a single product (variants,
	// description, dosage) are empty until the details are first read.
	Product catalog.Product

	// Attributes are the ingredients and allergens of the product.
	Attributes

	// Hash is the SHA-256 digest of the JSON forms of Product and Attributes, one after the
	// other, in hexadecimal. Two records with the same Hash have the same content.
	Hash string

	Presence Presence

	// ReadAt is the time at which the request for the newest content began. DetailsAt is the
	// same for the newest single product, and zero if none was read yet.
	ReadAt    time.Time
	DetailsAt time.Time

	// Revision is the number of the last change of the record. A store gives the next number
	// to each record whose Product, Attributes or Presence changes. See [Store.Changes].
	Revision int64
}

// MaxRead is longer than any walk and any read of a product. If a stored ReadAt or DetailsAt is
// ahead of a read by more than MaxRead, another process had a wrong clock. The stored time then
// counts as earlier. Otherwise the content would not change until the clocks reach that time.
const MaxRead = 24 * time.Hour

// isNewer reports whether the content stored with the time kept is newer than a read.
func isNewer(kept, readAt time.Time) bool {
	ahead := kept.Sub(readAt)
	return ahead > 0 && ahead <= MaxRead
}

// Listed returns the record after a list has shown its product, and reports whether anything
// other than ReadAt changed. If so, the store gives it a new Revision. Use the zero Record for
// a new product. Fields missing from lists stay. If the ReadAt of the record is newer than
// readAt, by at most [MaxRead], only Presence can change.
func (r Record) Listed(p catalog.Product, readAt time.Time) (Record, bool) {
	if isNewer(r.ReadAt, readAt) {
		p = r.Product
	} else {
		r.ReadAt = readAt
	}
	p.DescriptionHTML, p.Variants = r.Product.DescriptionHTML, r.Product.Variants
	p.Dosage, p.CustomDosage = r.Product.Dosage, r.Product.CustomDosage
	return r.with(p, PresencePresent)
}

// Detailed returns the record after a single product was read, and reports whether it changed.
// If DetailsAt is newer than readAt, by at most [MaxRead], nothing changes. If ReadAt is, only
// the fields missing from lists change.
//
// A single product is no evidence about the list, so Presence stays. There are two exceptions:
// a new product becomes present, and a gone product becomes missing, because the platform has
// it by its id.
//
// A single product has no primary variant of its own. Detailed uses the variant marked as
// primary, with the images from the list if it has none, and otherwise the primary variant of
// the list.
func (r Record) Detailed(p catalog.Product, readAt time.Time) (Record, bool) {
	switch {
	case isNewer(r.DetailsAt, readAt):
		return r, false
	case isNewer(r.ReadAt, readAt):
		listed := r.Product
		listed.DescriptionHTML, listed.Variants, listed.Dosage, listed.CustomDosage = p.DescriptionHTML, p.Variants, p.Dosage, p.CustomDosage
		p = listed
	default:
		r.ReadAt = readAt
		if p.PrimaryVariant == nil {
			p.PrimaryVariant = primary(p.Variants, r.Product.PrimaryVariant)
		}
	}
	r.DetailsAt = readAt
	presence := r.Presence
	switch presence {
	case "":
		presence = PresencePresent
	case PresenceGone:
		presence = PresenceMissing
	}
	return r.with(p, presence)
}

// primary returns the primary variant of a single product. The API promises images in lists
// only. Without the images of the list, each list would seem to change every product with
// details.
func primary(variants []catalog.Variant, listed *catalog.Variant) *catalog.Variant {
	at := slices.IndexFunc(variants, func(v catalog.Variant) bool { return v.Primary })
	if at < 0 {
		return listed
	}
	v := variants[at]
	if listed != nil && listed.ID == v.ID {
		v.ImageURLSmall = cmp.Or(v.ImageURLSmall, listed.ImageURLSmall)
		v.ImageURLMedium = cmp.Or(v.ImageURLMedium, listed.ImageURLMedium)
		v.ImageURLLarge = cmp.Or(v.ImageURLLarge, listed.ImageURLLarge)
	}
	return &v
}

// Attributed returns the record with the attributes a, and reports whether it changed.
func (r Record) Attributed(a Attributes) (Record, bool) {
	r.Attributes = a
	return r.with(r.Product, r.Presence)
}

// Unlisted returns the record after a complete walk did not see its product, and reports
// whether it changed. A present record becomes missing, and a missing record becomes gone.
func (r Record) Unlisted() (Record, bool) {
	before := r.Presence
	switch before {
	case PresencePresent:
		r.Presence = PresenceMissing
	case PresenceMissing:
		r.Presence = PresenceGone
	}
	return r, r.Presence != before
}

func (r Record) with(p catalog.Product, presence Presence) (Record, bool) {
	hash, presenceBefore := r.Hash, r.Presence
	document, _ := json.Marshal(p) // cannot fail: see NewListed
	r.Product, r.Hash, r.Presence = p, hashOf(document, r.Attributes), presence
	return r, r.Hash != hash || presence != presenceBefore
}

// Listed is a product on a page of the list.
type Listed struct {
	// Record is the result of [Record.Listed] on the zero Record.
	Record

	// Document is the JSON form of Product. It is computed for Hash, so a store of documents
	// need not encode the product again.
	Document []byte
}

// CheckID returns an [*api.ArgumentError] if a [Store] cannot contain a product with the id:
// it is empty, is not UTF-8, or contains a NUL, which PostgreSQL cannot store.
func CheckID(id string) error {
	switch {
	case id == "":
		return &api.ArgumentError{Field: "product.id", Reason: "is empty"}
	case !utf8.ValidString(id):
		return &api.ArgumentError{Field: "product.id", Reason: "is not UTF-8"}
	case strings.Contains(id, "\x00"):
		return &api.ArgumentError{Field: "product.id", Reason: "contains a NUL"}
	}
	return nil
}

// NewListed returns a product of a page whose request began at readAt. It fails with the error
// of [CheckID], or if a Decimal is not a number.
func NewListed(readAt time.Time, p catalog.Product) (Listed, error) {
	if err := CheckID(p.ID); err != nil {
		return Listed{}, err
	}
	p.DescriptionHTML, p.Variants, p.Dosage, p.CustomDosage = "", nil, nil, nil
	document, err := json.Marshal(p)
	if err != nil {
		return Listed{}, fmt.Errorf("catalogstore: product %s of a list: %w", p.ID, err)
	}
	return Listed{
		Record:   Record{Product: p, Hash: hashOf(document, Attributes{}), Presence: PresencePresent, ReadAt: readAt},
		Document: document,
	}, nil
}

// hashOf returns the Hash of a product with this JSON form.
func hashOf(document []byte, a Attributes) string {
	attributes, _ := json.Marshal(a) // cannot fail: a has only strings
	sum := sha256.Sum256(append(document, attributes...))
	return hex.EncodeToString(sum[:])
}
