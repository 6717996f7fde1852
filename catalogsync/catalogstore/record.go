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

// Presence says whether the platform's list still has a product.
type Presence string

// A product that a complete walk did not see is missing: it is still found, as a list that
// shifts while it is read may hide it. It is gone once the next complete walk does not see it
// either and the platform does not have it by its id.
const (
	PresencePresent Presence = "present"
	PresenceMissing Presence = "missing"
	PresenceGone    Presence = "gone"
)

// Attributes are what a product can be filtered by. No product of the API has them: they are
// learned by searching for each ingredient and each allergen.
type Attributes struct {
	IngredientIDs []string `json:"ingredient_ids,omitempty"`
	AllergenIDs   []string `json:"allergen_ids,omitempty"`
}

// Record is a product as a [Store] keeps it.
type Record struct {
	// Product has what lists show, and what only a single product has (variants,
	// description, dosage) from the first time that was read on.
	Product catalog.Product

	// Attributes are what the product can be filtered by.
	Attributes

	// Hash is SHA-256 of the JSON forms of Product and Attributes, one after the other, in
	// hexadecimal digits. Two records with one Hash have the same content.
	Hash string

	Presence Presence

	// ReadAt is when the request for the newest content began, and DetailsAt that of the
	// newest single product; zero if none was read yet.
	ReadAt    time.Time
	DetailsAt time.Time

	// Revision counts the changes of a store: each change of Product, Attributes or Presence
	// gives the record the next number. See [Store.Changes].
	Revision int64
}

// Listed returns the record as it is once a list has shown its product, and whether that
// changed it, other than in ReadAt: the store then gives it a new Revision. The zero Record
// is one that is new. What a list does not show stays, and content that was read earlier than
// that of the record changes nothing but Presence.
func (r Record) Listed(p catalog.Product, readAt time.Time) (Record, bool) {
	if readAt.Before(r.ReadAt) {
		p = r.Product
	} else {
		r.ReadAt = readAt
	}
	p.DescriptionHTML, p.Variants = r.Product.DescriptionHTML, r.Product.Variants
	p.Dosage, p.CustomDosage = r.Product.Dosage, r.Product.CustomDosage
	return r.with(p, PresencePresent)
}

// Detailed is Listed for a single product that was read: one that was read earlier than the
// details of the record changes nothing, and one that was read earlier than its list only
// what lists do not show. It says nothing of a list, so that
// Presence stays, but for a product that was gone: the platform has it by its id, so that it
// is missing. A new product is present. A single product has no primary variant: it is
// that of its variants which says so, with the images of the one of the list where it has
// none, else the one of the list.
func (r Record) Detailed(p catalog.Product, readAt time.Time) (Record, bool) {
	switch {
	case readAt.Before(r.DetailsAt):
		return r, false
	case readAt.Before(r.ReadAt):
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

// primary returns the primary one of the variants of a single product. The API promises images
// in lists only: without them a list would seem to change every product that was read.
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

// Attributed returns the record with other attributes, and whether that changed it.
func (r Record) Attributed(a Attributes) (Record, bool) {
	r.Attributes = a
	return r.with(r.Product, r.Presence)
}

// Unlisted returns the record as it is once a complete walk has not seen its product, and
// whether that changed it.
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
	document, _ := json.Marshal(p) // see NewListed
	r.Product, r.Hash, r.Presence = p, hashOf(document, r.Attributes), presence
	return r, r.Hash != hash || presence != presenceBefore
}

// Listed is a product as a page of the list shows it.
type Listed struct {
	// Record is what [Record.Listed] makes of the zero Record.
	Record

	// Document is the JSON form of Product. Hash needs it anyway, so that a store of documents
	// need not make it again.
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
	attributes, _ := json.Marshal(a) // has nothing that cannot be encoded
	sum := sha256.Sum256(append(document, attributes...))
	return hex.EncodeToString(sum[:])
}
