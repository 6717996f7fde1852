package catalogstoretest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

// products are the tests of records.
var products = map[string]func(*testing.T, opener){
	"Details":         details,
	"OlderDetails":    olderDetails,
	"WrongClock":      wrongClock,
	"DetailsAreKept":  detailsAreKept,
	"Undetailed":      undetailed,
	"Attributes":      attributes,
	"AnyText":         anyText,
	"AnyTime":         anyTime,
	"BadIDs":          badIDs,
	"RecordsAreWhole": recordsAreWhole,
}

func details(t *testing.T, open opener) {
	store := open()
	assert.True(t, detailed(t, store, 1, single("a", "A", "<p>one</p>")), "new")
	want, _ := catalogstore.Record{}.Detailed(single("a", "A", "<p>one</p>"), at(1))
	requireSame(t, want, get(t, store, "a"))
	assert.Equal(t, catalogstore.PresencePresent, want.Presence)
	revision := get(t, store, "a").Revision
	assert.False(t, detailed(t, store, 2, single("a", "A", "<p>one</p>")))
	assert.Equal(t, revision, get(t, store, "a").Revision)
	assert.Equal(t, kept(at(2)), get(t, store, "a").DetailsAt.UTC())
	assert.True(t, detailed(t, store, 3, single("a", "A", "<p>two</p>")))
	assert.Greater(t, get(t, store, "a").Revision, revision)
	assert.Equal(t, 1, state(t, store).Detailed)
}

func olderDetails(t *testing.T, open opener) {
	store := open()
	w := began(t, store, 0)
	saved(t, store, &w, 10, listed("a", "Listed"))
	assert.True(t, detailed(t, store, 5, single("a", "Before the list", "<p>")))
	a := get(t, store, "a")
	assert.Equal(t, "Listed", a.Product.Name)
	assert.Equal(t, "<p>", a.Product.DescriptionHTML, "only lists are newer")
	assert.False(t, detailed(t, store, 4, single("a", "Before", "<p>old</p>")))
	requireSame(t, a, get(t, store, "a"), "older details change nothing")
}

// wrongClock stores products at a time that other processes reach days later. Their next reads
// replace the content and the time, and their next walks notice that a product is missing.
func wrongClock(t *testing.T, open opener) {
	store := open()
	const late = 400 * 24 * 60 * 60
	for _, id := range []string{"list", "same", "details", "unlisted", "missing"} {
		detailed(t, store, late, single(id, "Old", "<p>old</p>"))
	}
	w := began(t, store, 0)
	saved(t, store, &w, 1, listed("list", "New"), listed("same", "Old"), listed("details", "Old"))
	assert.True(t, detailed(t, store, 2, single("details", "New", "<p>new</p>")))
	assert.Equal(t, 2, completed(t, store, w).Missing)
	w = began(t, store, 10)
	missing, err := store.Unlisted(t.Context(), w, 10)
	require.NoError(t, err)
	assert.Equal(t, []string{"missing", "unlisted"}, missing)
	assert.Equal(t, "New", get(t, store, "list").Product.Name)
	assert.Equal(t, kept(at(1)), get(t, store, "same").ReadAt.UTC())
	details := get(t, store, "details")
	assert.Equal(t, []any{"New", "<p>new</p>", kept(at(2))}, []any{details.Product.Name, details.Product.DescriptionHTML, details.DetailsAt.UTC()})
}

func detailsAreKept(t *testing.T, open opener) {
	store := open()
	detailed(t, store, 1, single("a", "A", "<p>"))
	w := began(t, store, 10)
	assert.Equal(t, catalogstore.Counts{Unchanged: 1}, saved(t, store, &w, 11, listed("a", "A")), "fields missing from lists are unchanged")
	assert.Empty(t, requested(t, store))
	assert.Equal(t, catalogstore.Counts{Repeated: 1}, saved(t, store, &w, 12, listed("a", "B")))
	a := get(t, store, "a")
	assert.Equal(t, "B", a.Product.Name)
	assert.Equal(t, "<p>", a.Product.DescriptionHTML)
	assert.Len(t, a.Product.Variants, 2)
	assert.NotNil(t, a.Product.Dosage)
	assert.Equal(t, kept(at(1)), a.DetailsAt.UTC())
	assert.Equal(t, []catalogstore.Request{{ProductID: "a", At: kept(at(12))}}, requested(t, store), "its variants may have changed")
	saved(t, store, &w, 12, listed("b", "B"))
	saved(t, store, &w, 13, listed("b", "C"))
	assert.Len(t, requested(t, store), 1, "b had no details")
}

func undetailed(t *testing.T, open opener) {
	store := open()
	walked(t, store, 0, listedAll("b", "a", "B", "é", "c", "gone", "a-1", "missing")...)
	walked(t, store, 100, listedAll("b", "a", "B", "é", "c", "a-1")...)
	w := began(t, store, 200)
	saved(t, store, &w, 201, listedAll("b", "a", "B", "é", "c", "a-1")...)
	completed(t, store, w, "gone")
	detailed(t, store, 201, single("c", "C", ""))
	var all []string
	for after := ""; ; after = all[len(all)-1] {
		ids, err := store.Undetailed(t.Context(), after, 2)
		require.NoError(t, err)
		require.LessOrEqual(t, len(ids), 2)
		if all = append(all, ids...); len(ids) == 0 {
			break
		}
	}
	assert.Equal(t, []string{"B", "a", "a-1", "b", "missing", "é"}, all)
	assert.Equal(t, 1, state(t, store).Detailed)
}

func attributes(t *testing.T, open opener) {
	store := open()
	walked(t, store, 0, listedAll("a", "b", "c")...)
	save := func(attributes map[string]catalogstore.Attributes) {
		t.Helper()
		require.NoError(t, store.SaveAttributes(t.Context(), attributes))
	}
	both := catalogstore.Attributes{IngredientIDs: []string{"i-1", "i'2"}, AllergenIDs: []string{"x"}}
	before := state(t, store).Revision
	save(map[string]catalogstore.Attributes{"a": both, "b": {AllergenIDs: []string{"x"}}, "unknown": both})
	a := get(t, store, "a")
	assert.Equal(t, both, a.Attributes)
	assert.Equal(t, hashOf(a.Product, both), a.Hash)
	assert.Equal(t, []string{"x"}, get(t, store, "b").AllergenIDs)
	assert.Equal(t, before+2, state(t, store).Revision, "c is unchanged")
	_, err := store.Get(t.Context(), "unknown")
	require.ErrorIs(t, err, catalogstore.ErrNotStored)

	save(map[string]catalogstore.Attributes{"a": both, "c": both})
	assert.Equal(t, before+4, state(t, store).Revision, "a is unchanged")
	assert.Empty(t, get(t, store, "b").AllergenIDs, "a product without a key loses its attributes")
	w := began(t, store, 100)
	assert.Equal(t, catalogstore.Counts{Unchanged: 2}, saved(t, store, &w, 101, listedAll("a", "b")...))
	assert.Equal(t, both, get(t, store, "a").Attributes, "a list keeps the attributes")
	detailed(t, store, 102, single("a", "Product a", "<p>"))
	assert.Equal(t, both, get(t, store, "a").Attributes)
	assert.Empty(t, requested(t, store), "attributes cause no request")
	assert.Equal(t, 1, state(t, store).Detailed)
}

// anyText stores every kind of text in JSON, and uses such texts in ids.
func anyText(t *testing.T, open opener) {
	store := open()
	for name, text := range map[string]string{
		"quotes":        `'"\%_;--$1?:x{}` + "`",
		"four bytes":    "žluťoučký 秘密 🔑 \U0001F9EA",
		"space":         " \tend ",
		"lines":         "one\r\ntwo\u2028three",
		"zero":          "a\x00b",
		"control":       "\x01\x1f\x7f",
		"markup":        "<b>&amp;</b>",
		"not a char":    "\ufffd\uffff",
		"long":          strings.Repeat("é", 100_000),
		"empty":         "",
		"a JSON escape": `\u0000`,
	} {
		id := name
		if !strings.Contains(name, "zero") && len(text) < 100 {
			id = "id " + text
		}
		p := single(id, text, text)
		p.Brand.Name, p.Status, p.Variants[1].SKU, p.Dosage.AdditionalInfo = text, catalog.Status(text), text, text
		detailed(t, store, 1, p)
		want, _ := catalogstore.Record{}.Detailed(p, at(1))
		requireSame(t, want, get(t, store, id), name)
		require.NoError(t, store.Request(t.Context(), at(2), id), name)
		require.Contains(t, requested(t, store), catalogstore.Request{ProductID: id, At: kept(at(2))}, name)
		w := began(t, store, 10)
		require.Equal(t, catalogstore.Counts{Unchanged: 1}, saved(t, store, &w, 11, listedLike(p)), name)
		require.NoError(t, store.SaveAttributes(t.Context(), map[string]catalogstore.Attributes{id: {IngredientIDs: []string{text}}}), name)
		require.Equal(t, []string{text}, get(t, store, id).IngredientIDs, name)
	}
}

// badIDs passes ids that no store can contain.
func badIDs(t *testing.T, open opener) {
	store := open()
	walked(t, store, 0, listedAll("a", "b")...)
	walked(t, store, 10, listedAll("a")...)
	asked(t, store, 11, "a")
	for name, id := range map[string]string{
		"empty": "", "NUL": "\x00", "NUL inside": "a\x00b", "NUL at the end": "a\x00", "not UTF-8": "a\xff", "half a surrogate": "\xed\xa0\x80", "half a character": "\xc3",
	} {
		same := unchanged(t, store)
		_, err := catalogstore.NewListed(at(20), listed(id, "Product"))
		require.ErrorIs(t, err, api.ErrArgument, name)
		_, err = store.SaveDetails(t.Context(), at(20), single(id, "Product", ""))
		require.ErrorIs(t, err, api.ErrArgument, name)
		require.ErrorIs(t, store.Request(t.Context(), at(20), "c", id), api.ErrArgument, name)
		_, err = store.Get(t.Context(), id)
		require.ErrorIs(t, err, catalogstore.ErrNotStored, name)
		require.NoError(t, store.Drop(t.Context(), catalogstore.Request{ProductID: id, At: at(20)}), name)
		require.NoError(t, store.SaveAttributes(t.Context(), map[string]catalogstore.Attributes{id: {IngredientIDs: []string{"i"}}}), name)
		same(name)
	}
	_, err := catalogstore.NewListed(at(20), catalog.Product{ID: "a", PrimaryVariant: &catalog.Variant{MSRP: "no number"}})
	require.ErrorContains(t, err, "product a")
	w := began(t, store, 30)
	saved(t, store, &w, 31, listedAll("a")...)
	assert.Equal(t, 1, completed(t, store, w, "a\x00b", "b", "", "\xff").Gone)
}

// anyTime stores a time with nanoseconds, a distant time and a monotonic clock reading.
func anyTime(t *testing.T, open opener) {
	store := open()
	for name, at := range map[string]time.Time{
		"with nanoseconds": t0, "far": time.Date(2199, 12, 31, 23, 59, 59, 999_999_999, time.UTC), "with a clock": time.Now(),
	} {
		_, err := store.SaveDetails(t.Context(), at, single(name, "A", ""))
		require.NoError(t, err, name)
		record := get(t, store, name)
		assert.Equal(t, kept(at), record.ReadAt.UTC(), name)
		assert.Equal(t, kept(at), record.DetailsAt.UTC(), name)
		changed, err := store.SaveDetails(t.Context(), at, single(name, "B", ""))
		require.NoError(t, err, name)
		assert.True(t, changed, "a read at the same time must be stored: %s", name)
	}
}

// recordsAreWhole compares the results of Get and Changes with the methods of Record for the
// same events.
func recordsAreWhole(t *testing.T, open opener) {
	store := open()
	var want catalogstore.Record
	w := began(t, store, 0)
	saved(t, store, &w, 1, listed("a", "One"))
	want, _ = want.Listed(listed("a", "One"), kept(at(1)))
	detailed(t, store, 2, single("a", "Two", "<p>"))
	want, _ = want.Detailed(single("a", "Two", "<p>"), kept(at(2)))
	require.NoError(t, store.SaveAttributes(t.Context(), map[string]catalogstore.Attributes{"a": {IngredientIDs: []string{"i"}}}))
	want, _ = want.Attributed(catalogstore.Attributes{IngredientIDs: []string{"i"}})
	completed(t, store, w)
	w = began(t, store, 50)
	completed(t, store, w)
	want, _ = want.Unlisted()
	requireSame(t, want, get(t, store, "a"))
	records := feed(t, store, 0, 1)
	require.Len(t, records, 1)
	assert.Equal(t, get(t, store, "a"), records[0])
	assert.Equal(t, hashOf(want.Product, want.Attributes), records[0].Hash)
	assert.EqualValues(t, 4, records[0].Revision)
	assert.Equal(t, time.UTC, records[0].ReadAt.Location())
}
