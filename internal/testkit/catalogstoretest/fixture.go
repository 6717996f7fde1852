package catalogstoretest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

// opener opens a handle on the storage of one test.
type opener func() catalogstore.Store

// t0 has nanoseconds and a time zone, because stores keep neither.
var t0 = time.Date(2026, 11, 22, 10, 20, 30, 123_456_789, time.FixedZone("", -5*3600))

// at returns the time the given number of seconds after t0.
func at(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

// kept returns t in UTC and to the microsecond, as stores keep it.
func kept(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// listed returns a product as on a page of the list.
func listed(id, name string) catalog.Product {
	return catalog.Product{
		ID: id, Name: name, Status: catalog.StatusAvailable, VariantCount: 2, Brand: catalog.BrandSummary{ID: "b-1", Name: "Kelp & Co", Prefix: "KLP"},
		PrimaryVariant: &catalog.Variant{
			ID: id + "-60", SKU: "KLP-" + id, Units: "60", UnitOfMeasure: "capsules", UPC: "012345678905", MSRP: "12.50", Status: catalog.StatusAvailable,
			Availability: "In Stock", Primary: true, ImageURLSmall: "https://images.example/1?a=1&b=2",
		},
	}
}

// single returns a product as read by its id, with two variants and a dosage.
func single(id, name, description string) catalog.Product {
	p := listed(id, name)
	p.Variants = []catalog.Variant{*p.PrimaryVariant, {ID: id + "-120", SKU: "KLP-" + id + "-120", MSRP: "20.00"}}
	p.PrimaryVariant = nil
	p.DescriptionHTML = description
	p.Dosage = &catalog.Dosage{Amount: "1-2", Frequency: "twice per day"}
	return p
}

func listedAll(ids ...string) []catalog.Product {
	var all []catalog.Product
	for _, id := range ids {
		all = append(all, listed(id, "Product "+id))
	}
	return all
}

// began begins the next walk at the given second.
func began(t testing.TB, store catalogstore.Store, seconds int) catalogstore.Walk {
	t.Helper()
	w := catalogstore.Walk{Generation: state(t, store).Newest.Generation + 1, StartedAt: at(seconds), PageSize: 100}
	require.NoError(t, store.Begin(t.Context(), w))
	return w
}

// page returns a page of products read at the given second.
func page(t testing.TB, second int, products ...catalog.Product) []catalogstore.Listed {
	t.Helper()
	page := make([]catalogstore.Listed, len(products))
	for i, p := range products {
		var err error
		page[i], err = catalogstore.NewListed(at(second), p)
		require.NoError(t, err)
	}
	return page
}

// saved saves products as the next page of w, read at the given second.
func saved(t testing.TB, store catalogstore.Store, w *catalogstore.Walk, second int, products ...catalog.Product) catalogstore.Counts {
	t.Helper()
	w.Page++
	w.Requests++
	counts, err := store.SavePage(t.Context(), *w, page(t, second, products...))
	require.NoError(t, err)
	return counts
}

// completed completes a walk, one minute after its start.
func completed(t testing.TB, store catalogstore.Store, w catalogstore.Walk, gone ...string) catalogstore.Walk {
	t.Helper()
	w.CompletedAt = w.StartedAt.Add(time.Minute)
	w, err := store.Complete(t.Context(), w, gone)
	require.NoError(t, err)
	return w
}

// walked runs a complete walk over products. It begins and reads its page at the given
// second.
func walked(t testing.TB, store catalogstore.Store, second int, products ...catalog.Product) catalogstore.Walk {
	t.Helper()
	w := began(t, store, second)
	saved(t, store, &w, second, products...)
	return completed(t, store, w)
}

func detailed(t testing.TB, store catalogstore.Store, second int, p catalog.Product) bool {
	t.Helper()
	changed, err := store.SaveDetails(t.Context(), at(second), p)
	require.NoError(t, err)
	return changed
}

func state(t testing.TB, store catalogstore.Store) catalogstore.State {
	t.Helper()
	state, err := store.State(t.Context())
	require.NoError(t, err)
	return state
}

func get(t testing.TB, store catalogstore.Store, id string) catalogstore.Record {
	t.Helper()
	record, err := store.Get(t.Context(), id)
	require.NoError(t, err)
	return record
}

func presence(t testing.TB, store catalogstore.Store, id string) catalogstore.Presence {
	t.Helper()
	return get(t, store, id).Presence
}

func requested(t testing.TB, store catalogstore.Store) []catalogstore.Request {
	t.Helper()
	requests, err := store.Requested(t.Context(), 1000)
	require.NoError(t, err)
	return requests
}

// feed reads all changes after a revision, up to limit at a time.
func feed(t testing.TB, store catalogstore.Store, after int64, limit int) (all []catalogstore.Record) {
	t.Helper()
	for {
		some, err := store.Changes(t.Context(), after, limit)
		require.NoError(t, err)
		require.LessOrEqual(t, len(some), limit)
		for _, record := range some {
			require.Greater(t, record.Revision, after, "revisions must increase")
			after = record.Revision
		}
		if all = append(all, some...); len(some) == 0 {
			return all
		}
	}
}

func idsOf(records []catalogstore.Record) []string {
	var ids []string
	for _, r := range records {
		ids = append(ids, r.Product.ID)
	}
	return ids
}

// hashOf returns the Hash of a record with a product and attributes.
func hashOf(p catalog.Product, a catalogstore.Attributes) string {
	r, _ := catalogstore.Record{Product: p}.Attributed(a)
	return r.Hash
}

// requireSame compares two records without their revisions.
func requireSame(t testing.TB, want, got catalogstore.Record, args ...any) {
	t.Helper()
	want.Revision, got.Revision = 0, 0
	require.JSONEq(t, encoded(t, want), encoded(t, got), args...)
}

func encoded(t testing.TB, r catalogstore.Record) string {
	t.Helper()
	r.ReadAt, r.DetailsAt = kept(r.ReadAt), kept(r.DetailsAt)
	text, err := json.Marshal(r)
	require.NoError(t, err)
	return string(text)
}

// requireWalk compares two walks, with times as stores keep them.
func requireWalk(t testing.TB, want, got catalogstore.Walk, args ...any) {
	t.Helper()
	for _, at := range []*time.Time{&want.StartedAt, &want.CompletedAt, &got.StartedAt, &got.CompletedAt} {
		if !at.IsZero() {
			*at = kept(*at)
		}
	}
	require.Equal(t, want, got, args...)
}

// unchanged returns a check for changes of the store since this call.
func unchanged(t testing.TB, store catalogstore.Store) func(args ...any) {
	t.Helper()
	before, records, requests := state(t, store), feed(t, store, 0, 100), requested(t, store)
	return func(args ...any) {
		t.Helper()
		assert.Equal(t, before, state(t, store), args...)
		assert.Equal(t, records, feed(t, store, 0, 100), args...)
		assert.Equal(t, requests, requested(t, store), args...)
	}
}

// listedLike returns a single product as lists show it.
func listedLike(p catalog.Product) catalog.Product {
	primary := p.Variants[0]
	p.PrimaryVariant, p.Variants, p.DescriptionHTML, p.Dosage = &primary, nil, "", nil
	return p
}
