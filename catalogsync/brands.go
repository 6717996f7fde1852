package catalogsync

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
)

// PermittedBrands are the brands that a clinic may order, as the platform said at a time. It
// never changes, and is safe for concurrent use. Get it from a [BrandCache].
//
// The list of products has those of all brands, also of those that a clinic may not order. A
// search shows them, unless [SearchOptions].Permitted keeps to a clinic's brands.
type PermittedBrands struct {
	asOf time.Time
	ids  map[string]struct{}
}

// readPermittedBrands reads the brands that a clinic may order.
func readPermittedBrands(ctx context.Context, brands catalog.Brands) (*PermittedBrands, error) {
	if brands == (catalog.Brands{}) {
		return nil, &api.ArgumentError{Field: "brands", Reason: "is empty"}
	}
	p := &PermittedBrands{asOf: time.Now(), ids: map[string]struct{}{}}
	for brand, err := range brands.All(ctx, catalog.BrandListOptions{ClinicPermitted: true}) {
		if err != nil {
			return nil, err
		}
		if brand.ID != "" { // it would permit every product without a brand
			p.ids[brand.ID] = struct{}{}
		}
	}
	return p, nil
}

// permits reports whether the clinic may order a brand.
func (p *PermittedBrands) permits(brandID string) bool {
	_, permitted := p.ids[brandID]
	return permitted
}

// Format prints the type only.
func (p *PermittedBrands) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "catalogsync.PermittedBrands")
}

// brandAge is the time after which a [BrandCache] reads the brands of a clinic again. The
// platform sends no event if they change.
const brandAge = 24 * time.Hour

// BrandCache keeps the permitted brands of any number of clinics for a day. The zero value is
// empty. It is safe for concurrent use.
type BrandCache struct {
	mu      sync.Mutex
	clinics map[string]*cachedBrands
}

// cachedBrands are those of a clinic.
type cachedBrands struct {
	reading   chan struct{} // full while they are read
	permitted atomic.Pointer[PermittedBrands]
}

// Format prints the type only.
func (c *BrandCache) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "catalogsync.BrandCache") }

// Get returns the brands that a clinic may order, at most a day old. If it has none, it reads
// them with brands, the Brands of a client of this clinic. Concurrent callers wait for one
// request. If Get fails, search without permitted brands: the [Result] reports that it contains
// products of all brands. The API knows the brands of clinics, not of single practitioners.
// API section: GET /catalog/brands (clinic_permitted).
func (c *BrandCache) Get(ctx context.Context, clinicID string, brands catalog.Brands) (*PermittedBrands, error) {
	if clinicID == "" {
		return nil, &api.ArgumentError{Field: "clinicID", Reason: "is empty"}
	}
	clinic := c.clinic(clinicID)
	if p := clinic.permitted.Load(); fresh(p) {
		return p, nil
	}
	select {
	case clinic.reading <- struct{}{}:
		defer func() { <-clinic.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p := clinic.permitted.Load(); fresh(p) { // another caller has read them
		return p, nil
	}
	p, err := readPermittedBrands(ctx, brands)
	if err != nil {
		return nil, err
	}
	clinic.permitted.Store(p)
	return p, nil
}

// clinic returns the entry of a clinic. For a new one it drops those that are too old, so
// that clinics which are gone take no memory.
func (c *BrandCache) clinic(id string) *cachedBrands {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.clinics[id]; known != nil {
		return known
	}
	for other, clinic := range c.clinics {
		if !fresh(clinic.permitted.Load()) && len(clinic.reading) == 0 {
			delete(c.clinics, other)
		}
	}
	if c.clinics == nil {
		c.clinics = map[string]*cachedBrands{}
	}
	made := &cachedBrands{reading: make(chan struct{}, 1)}
	c.clinics[id] = made
	return made
}

func fresh(p *PermittedBrands) bool {
	return p != nil && time.Since(p.asOf) <= brandAge
}
