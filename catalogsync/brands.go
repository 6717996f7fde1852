package catalogsync

import (
	"context"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
)

// PermittedBrands are the brands that a clinic may order, as read from the platform at one
// time. They never change and are safe for concurrent use. Get them from a [BrandCache].
//
// The product list contains the products of all brands. Searches find all of them, unless
// [SearchOptions].Permitted limits the results to the brands of a clinic.
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
		if brand.ID != "" { // "" would permit every product without a brand
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

// brandAge is the age at which a [BrandCache] reads the brands of a clinic again. The platform
// sends no event if they change.
const brandAge = 24 * time.Hour

// BrandCache caches the permitted brands of any number of clinics for 24 hours. The zero value
// is empty. It is safe for concurrent use.
type BrandCache struct {
	mu      sync.Mutex
	clinics map[string]chan *PermittedBrands // by clinic: contains its brands, or nil before they are read. Empty while a call uses it
}

// Get returns the brands that a clinic may order, at most 24 hours old. If the cache has none,
// Get reads them with brands, the Brands of a client of this clinic. Concurrent callers wait
// for one request.
//
// If Get fails, search without permitted brands. The [Result] then reports that it contains
// products of all brands. The API knows the brands of clinics, not of single practitioners.
//
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

// clinic returns the entry of a clinic. Before it adds an entry, it removes expired ones, so
// that former clinics use no memory.
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
		default: // in use by a call
		}
	}
	if c.clinics == nil {
		c.clinics = map[string]chan *PermittedBrands{}
	}
	c.clinics[id] = make(chan *PermittedBrands, 1)
	c.clinics[id] <- nil
	return c.clinics[id]
}
