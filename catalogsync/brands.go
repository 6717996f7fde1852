package catalogsync

import (
	"context"
	"sync"
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
	for brand, err := range brands.List(catalog.BrandListOptions{ClinicPermitted: true}).All(ctx) {
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

// brandAge is the time after which a [BrandCache] reads the brands of a clinic again. The
// platform sends no event if they change.
const brandAge = 24 * time.Hour

// BrandCache keeps the permitted brands of any number of clinics for a day. The zero value is
// empty. It is safe for concurrent use.
type BrandCache struct {
	mu      sync.Mutex
	clinics map[string]chan *PermittedBrands // each contains its brands, or nil, while no call has them
}

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
	select {
	case p := <-clinic:
		var err error
		if p == nil || time.Since(p.asOf) > brandAge {
			p, err = readPermittedBrands(ctx, brands)
		}
		clinic <- p
		return p, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// clinic returns the entry of a clinic. For a new one it drops those that are too old, so that
// clinics which are gone take no memory.
func (c *BrandCache) clinic(id string) chan *PermittedBrands {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.clinics[id]; known != nil {
		return known
	}
	for other, clinic := range c.clinics {
		select {
		case p := <-clinic:
			if p != nil && time.Since(p.asOf) > brandAge {
				delete(c.clinics, other)
			}
			clinic <- p
		default: // a call has its brands
		}
	}
	if c.clinics == nil {
		c.clinics = map[string]chan *PermittedBrands{}
	}
	c.clinics[id] = make(chan *PermittedBrands, 1)
	c.clinics[id] <- nil
	return c.clinics[id]
}
