package catalogsync

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"
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
// return them with a product. A [Catalog] learns them by searching for each one.
type Attributes struct {
	IngredientIDs []string `json:"ingredient_ids,omitempty"`
	AllergenIDs   []string `json:"allergen_ids,omitempty"`
}

// Record is a product in a [Catalog]. Do not modify its slices and pointers.
type Record struct {
	// Product contains the fields that lists show. The fields of a single product (variants,
	// description, dosage) are empty until the details are first read.
	Product catalog.Product

	// Attributes are the ingredients and allergens of the product.
	Attributes

	Presence Presence

	// ReadAt is the time at which the request for the newest content began. DetailsAt is the
	// same for the newest single product, and zero if none was read yet.
	ReadAt    time.Time
	DetailsAt time.Time

	// Revision is the number of the last change of Product, Attributes or Presence in this
	// Catalog. See [Catalog.Changes].
	Revision int64
}

// State is the progress of a catalog.
type State struct {
	// Newest is the newest walk, and Complete is the newest complete walk. Both are zero
	// before there is one. They are equal after the newest walk is complete.
	Newest   Walk
	Complete Walk

	// Records counts the records by presence. Detailed counts those with details, except gone
	// records.
	Records  map[Presence]int
	Detailed int

	// Requested is the number of products with an event that are not read yet.
	Requested int

	// Revision is the greatest revision of all records.
	Revision int64

	// Searchable reports whether there is an index, so that a search does not fail with
	// [ErrNotLoaded]. The first one follows soon after the first page or snapshot.
	Searchable bool
}

// Walk is one read of the platform's whole list of products.
type Walk struct {
	Generation int64 // from 1
	StartedAt  time.Time

	// Page is the number of the last read page, and 0 before the first one. PageSize is the maximum
	// number of products on a page. Total is the length of the list, as stated on that page.
	Page     int
	PageSize int
	Total    int

	// Requests is the number of requests made by the walk.
	Requests int

	// Skipped is the number of products that the walk could not use, for example because
	// they have no id. If a page is read again, its products count again.
	Skipped int

	// CompletedAt is zero while the walk is in progress. Missing and Gone are the numbers of
	// records that became missing and gone at its end.
	CompletedAt time.Time
	Missing     int
	Gone        int
}

// Counts is the number of products created, updated and left unchanged by a page. Repeated is
// the number of products already seen by the walk.
type Counts struct{ Created, Updated, Unchanged, Repeated int }

// moment is the order of reads within a process. Clocks may be changed, moments are not.
type moment int64

// record is a record with the moments of its reads. It never changes. A record of an adopted snapshot
// is older than every read.
type record struct {
	Record
	read, detailed moment // as ReadAt and DetailsAt
	listed         moment // of the newest page that showed it
}

// contents is the state of a [Catalog].
type contents struct {
	mu sync.Mutex // guards the rest

	records  map[string]*record
	revision int64    // the greatest one used, or a greater one
	changed  []change // in the order of revisions, with entries that a newer one replaces

	newest, complete Walk
	begun            moment            // of newest
	elsewhere        time.Time         // the last time that another process reported its walk
	now              moment            // the last one
	pending          map[string]moment // requested products
	shared           bool              // with other processes
	heard            time.Time         // of the newest event in a list, by the clock of the platform
	edits            int               // counts changes to save
}

type change struct {
	revision int64
	id       string
}

// last returns the greatest revision of all records.
func (c *contents) last() int64 {
	if len(c.changed) == 0 {
		return 0
	}
	return c.changed[len(c.changed)-1].revision
}

func (c *contents) newestWalk() Walk {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest
}

// tick returns the next moment.
func (c *contents) tick() moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now++
	return c.now
}

// put stores a record, and gives it a new revision if it changed.
func (c *contents) put(id string, before *record, next record) (changed bool) {
	changed = before == nil || !same(before.Record, next.Record)
	if changed {
		c.edits++
		c.number(&next)
	}
	c.records[id] = &next
	if len(c.changed) > 2*len(c.records)+100 {
		c.changed = slices.DeleteFunc(c.changed, func(at change) bool { return c.records[at.id].Revision != at.revision })
	}
	return changed
}

// same reports whether two records have the same content and presence.
func same(a, b Record) bool {
	return a.Presence == b.Presence && reflect.DeepEqual(a.Product, b.Product) && reflect.DeepEqual(a.Attributes, b.Attributes)
}

// number gives a new record the next revision.
func (c *contents) number(r *record) {
	c.revision++
	r.Revision = c.revision
	c.changed = append(c.changed, change{c.revision, r.Product.ID})
}

func (c *contents) get(id string) (before *record, next record) {
	if before = c.records[id]; before != nil {
		next = *before
	}
	return before, next
}

// request requests a single product.
func (c *contents) request(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now++
	c.edits++
	c.pending[id] = c.now
}

// begin stores a new walk.
func (c *contents) begin(w Walk) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now++
	c.edits++
	c.newest, c.begun = w, c.now
}

// savePage stores the products of a page and the progress of its walk. The request for the page
// began at a time and a moment. A record with details whose fields in lists change is also
// requested, because its variants may have changed too.
func (c *contents) savePage(w Walk, products []catalog.Product, began time.Time, at moment) (counts Counts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest = w
	c.edits++
	for _, p := range products {
		before, next := c.get(p.ID)
		if at >= next.read {
			next.ReadAt, next.read = began, at
			details := next.Product
			next.Product = p
			setDetails(&next.Product, details)
		}
		next.Presence, next.listed = PresencePresent, at
		repeated := before != nil && before.listed >= c.begun
		changed := c.put(p.ID, before, next)
		switch {
		case before == nil:
			counts.Created++
		case repeated:
			counts.Repeated++
		case changed:
			counts.Updated++
		default:
			counts.Unchanged++
		}
		if changed && before != nil && !before.DetailsAt.IsZero() && !reflect.DeepEqual(before.Product, next.Product) {
			c.pending[p.ID] = at
		}
	}
	return counts
}

// saveDetails stores a single product that was read at a moment, and settles its request. The
// product is no evidence about the list, so its presence stays. There are two exceptions: a new
// product becomes present, and a gone product becomes missing, because the platform has it by its
// id.
func (c *contents) saveDetails(at moment, readAt time.Time, p catalog.Product) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.edits++
	c.settle(p.ID, at)
	before, next := c.get(p.ID)
	if at < next.detailed {
		return
	}
	if at >= next.read {
		if p.PrimaryVariant == nil {
			p.PrimaryVariant = primary(p.Variants, next.Product.PrimaryVariant)
		}
		next.Product, next.ReadAt, next.read = p, readAt, at
	} else {
		setDetails(&next.Product, p)
	}
	next.DetailsAt, next.detailed = readAt, at
	switch next.Presence {
	case "":
		next.Presence = PresencePresent
	case PresenceGone:
		next.Presence = PresenceMissing
	}
	c.put(p.ID, before, next)
}

// settle removes the request for a product that was read, unless it is newer.
func (c *contents) settle(id string, at moment) {
	if requested, is := c.pending[id]; is && requested <= at {
		delete(c.pending, id)
		c.edits++
	}
}

// unlisted returns the records with a presence that the walk has not seen, and that were not read
// since it began.
func (c *contents) unlisted(p Presence) (found []*record) {
	for _, r := range c.records {
		if r.Presence == p && max(r.read, r.listed) < c.begun {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *record) int {
		return cmp.Or(a.ReadAt.Compare(b.ReadAt), cmp.Compare(a.Product.ID, b.Product.ID))
	})
	return found
}

// suspects returns the ids of up to limit missing records that the walk has not seen either.
func (c *contents) suspects(limit int) (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.unlisted(PresenceMissing)
	for _, r := range found[:min(limit, len(found))] {
		ids = append(ids, r.Product.ID)
	}
	return ids
}

// end ends the newest walk. gone are the missing products that the platform does not have.
func (c *contents) end(w Walk, gone []string) Walk {
	c.mu.Lock()
	defer c.mu.Unlock()
	missing := c.unlisted(PresencePresent)
	for _, r := range c.unlisted(PresenceMissing) {
		if slices.Contains(gone, r.Product.ID) {
			next := *r
			next.Presence = PresenceGone
			c.put(r.Product.ID, r, next)
			w.Gone++
		}
	}
	for _, r := range missing {
		next := *r
		next.Presence = PresenceMissing
		c.put(r.Product.ID, r, next)
	}
	w.Missing = len(missing)
	c.newest, c.complete = w, w
	c.edits++
	return w
}

// saveAttributes replaces the attributes of all products.
func (c *contents) saveAttributes(attributes map[string]Attributes) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, r := range c.records {
		next := *r
		next.Attributes = attributes[id]
		c.put(id, r, next)
	}
}

// changes returns up to limit records with a revision greater than after.
func (c *contents) changes(after int64, limit int) (page []Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from, _ := slices.BinarySearchFunc(c.changed, after+1, func(at change, revision int64) int { return cmp.Compare(at.revision, revision) })
	for _, at := range c.changed[from:] {
		if r := c.records[at.id]; r.Revision == at.revision {
			if page = append(page, r.Record); len(page) == limit {
				break
			}
		}
	}
	return page
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

// setDetails replaces the fields that lists do not show.
func setDetails(p *catalog.Product, from catalog.Product) {
	p.DescriptionHTML, p.Variants, p.Dosage, p.CustomDosage = from.DescriptionHTML, from.Variants, from.Dosage, from.CustomDosage
}

// checkID returns an error if a snapshot, or a table of a reader, cannot contain a product with the
// id.
func checkID(id string) error {
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
