package dispensarytest

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Every list has the same pages, and together they contain the whole list.
func TestEveryListHasPages(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	for _, e := range exemplars(t, b) {
		if !e.op.List {
			continue
		}
		join := "?"
		if strings.Contains(e.path, "?") {
			join = "&"
		}
		whole := b.get(e.path+join+"page[size]=100").ok(200, e.op.Key).([]any)
		for size := range 4 {
			if size == 0 {
				continue
			}
			pages := (len(whole) + size - 1) / size
			var rows []any
			for number := range pages + 1 {
				got := b.get(fmt.Sprintf("%s%spage[number]=%d&page[size]=%d", e.path, join, number+1, size))
				rows = append(rows, got.ok(200, e.op.Key).([]any)...)
				meta := map[string]any{
					"current_page": float64(number + 1), "next_page": nil, "prev_page": nil,
					"total_pages": float64(pages), "total_count": float64(len(whole)),
				}
				if number+1 < pages {
					meta["next_page"] = float64(number + 2)
				}
				if number > 0 && number < pages {
					meta["prev_page"] = float64(number)
				}
				assert.Equal(t, meta, got.ok(200, "meta"), "%s page %d of %d", e.op.ID, number+1, size)
			}
			assert.Equal(t, len(whole), len(rows), e.op.ID)
			for i := range rows {
				assert.Equal(t, whole[i], rows[i], e.op.ID)
			}
		}
		assert.Equal(t, whole, b.get(e.path+join+"page[size]=1000").ok(200, e.op.Key), "a page has at most 100 items")
		b.get(e.path + join + "page[number]=&page[size]=").ok(200)
		b.get(e.path+join+"a=%zz").rejected(400, "malformed")
		for _, wrong := range []string{"page[number]=0", "page[size]=0", "page[number]=1.5", "page[size]=ten", "page[number]=-1", "page[size]=1e2", "page[size]=99999999999999999999"} {
			b.get(e.path+join+wrong).rejected(422, "must be a whole number above 0")
		}
	}
}

// Every parameter with a fixed set of values rejects others, in every list.
func TestEveryFilterRejectsUnknownValues(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	wrong := map[string][]string{
		"sort_by": {"id", "Name", "created_at,id"}, "order_by": {"asc", "down", "DESCENDING"}, "event_type": {"order", "nonsense"},
		"created_at": {"2026-13-01", "01/02/2026", "2026-1-2", ">", "..", "<>2026-01-01", "2026-01-01..x"}, "completed_at": {"yesterday", "2026-02-30"}, "attempted_at": {"2026"},
		"successfully_delivered": {"yes", "TRUE", "1"}, "available": {"yes"}, "clinic_permitted": {"1"}, "current_state": {"done"}, "ownership_type": {"mine"}, "type": {"order"},
	}
	checked := 0
	for _, e := range exemplars(t, b) {
		for _, name := range e.op.Query {
			for _, value := range wrong[name] {
				query := url.Values{name: {value}}
				if e.op.ID == "metadata.list" {
					query.Set("id", "x")
				}
				b.get(strings.Split(e.path, "?")[0]+"?"+query.Encode()).rejected(422, name+" must be")
				checked++
			}
		}
	}
	assert.Greater(t, checked, 60)
	b.get("/events/patients?event_type=order.placed").rejected(422, "event_type must be")
}

// inSequence reports whether the values of a column are in order.
func inSequence(values []any, descending bool) bool {
	return slices.IsSortedFunc(values, func(a, b any) int {
		if descending {
			a, b = b, a
		}
		return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
}

// Plans are sorted by their times. order_by alone reverses the order of creation.
func TestPlanListIsSorted(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	patient := b.fake.Patients.All()[0].ID
	for i := range 6 {
		_, _, err := b.fake.Plans.Create(patient, model.PlanCreate{})
		require.NoError(t, err)
		_, _, err = b.fake.Plans.Update(b.fake.Plans.All()[i/2].ID, model.PlanUpdate{})
		require.NoError(t, err)
		b.fake.Clock.Advance(17 * time.Minute)
	}
	for _, field := range []string{"created_at", "updated_at"} {
		for _, order := range []string{"", "ASC", "DESC"} {
			got := b.get(b.plansOf(patient)+"?sort_by="+field+"&order_by="+order).column("treatment_plans", field)
			require.Greater(t, len(got), 2)
			assert.True(t, inSequence(got, order == "DESC"), "%s %s: %v", field, order, got)
		}
	}
	assert.True(t, inSequence(b.get(b.plansOf(patient)+"?order_by=DESC").column("treatment_plans", "created_at"), true))
}

func TestProtocolListAppliesFilters(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	first, second := b.fake.Users()[0].ID, b.fake.Users()[1].ID
	for query, want := range map[string][]any{
		first:                              {"Better Sleep", "Gut Reset", "Joint Comfort"},
		first + "?ownership_type=owned":    {"Better Sleep", "Gut Reset", "Joint Comfort"},
		first + "?ownership_type=shared":   {"Winter Immunity"},
		first + "?ownership_type=all":      {"Better Sleep", "Gut Reset", "Joint Comfort", "Winter Immunity"},
		first + "?current_state=draft":     {"Joint Comfort"},
		first + "?current_state=cancelled": {},
		first + "?order_by=DESC":           {"Joint Comfort", "Gut Reset", "Better Sleep"},
		second:                             {"Winter Immunity", "Old Energy Plan"},
		second + "?ownership_type=all":     {"Gut Reset", "Winter Immunity", "Old Energy Plan"},
		second + "?current_state=cancelled&ownership_type=all":    {"Old Energy Plan"},
		first + "?ownership_type=all&sort_by=name&order_by=DESC":  {"Winter Immunity", "Joint Comfort", "Gut Reset", "Better Sleep"},
		first + "?sort_by=current_state":                          {"Better Sleep", "Gut Reset", "Joint Comfort"},
		first + "?sort_by=current_state&order_by=DESC":            {"Joint Comfort", "Better Sleep", "Gut Reset"},
		first + "?ownership_type=shared&current_state=active&x=1": {"Winter Immunity"},
	} {
		id, filter, _ := strings.Cut(query, "?")
		assert.Equal(t, want, b.get("/clinic/practitioners/"+id+"/protocols?"+filter).column("protocols", "name"), query)
	}
	assert.Equal(t, []any{"owned", "owned", "owned", "shared"}, b.get("/clinic/practitioners/"+first+"/protocols?ownership_type=all").column("protocols", "ownership_type"))
	assert.Equal(t, []any{"Winter Immunity", "Old Energy Plan"}, b.get("/clinic/practitioners/"+second+"/templates").column("templates", "name"))
	b.get("/clinic/practitioners/nobody/protocols").rejected(404, "Not Found")
	b.get("/clinic/practitioners/nobody/templates").rejected(404, "Not Found")
}

func TestBrandListAppliesFilters(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	all := b.get("/catalog/brands").column("brands", "name")
	for query, want := range map[string]int{"available=true": 7, "available=false": 8, "clinic_permitted=true": 7, "clinic_permitted=false": 8, "available=true&clinic_permitted=true": 7} {
		assert.Len(t, b.get("/catalog/brands?"+query).column("brands", "id"), want, query)
	}
	for _, product := range b.fake.Products.All() {
		if product.BrandID != brandsOf(b.fake)[0].ID {
			continue
		}
		for _, id := range product.VariantIDs {
			_, _, err := b.fake.Products.UpdateVariant(id, model.VariantUpdate{Status: new(model.VariantUnavailable)})
			require.NoError(t, err)
		}
		assert.Equal(t, "unavailable", b.get("/catalog/products/"+product.ID).ok(200, "product", "status"))
	}
	assert.Equal(t, all[1:len(all)-1], b.get("/catalog/brands?available=true").column("brands", "name"), "the first brand is unavailable")
	assert.Equal(t, "unavailable", b.get("/catalog/brands/"+brandsOf(b.fake)[0].ID).ok(200, "brand", "status"))
}

// An order can belong to several plans, and each of them finds it.
func TestEachPlanFindsSharedOrder(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	patient, variants := b.fake.Patients.All()[0], b.fake.Products.All()
	var ids []string
	for n := range 3 {
		plan, _, err := b.fake.Plans.Create(patient.ID, model.PlanCreate{Recommendations: []model.Recommendation{
			{VariantID: variants[0].VariantIDs[0], UnitsToPurchase: n + 1}, {VariantID: variants[n].VariantIDs[0], UnitsToPurchase: 1},
		}})
		require.NoError(t, err)
		ids = append(ids, plan.ID)
	}
	order, event, err := b.fake.Orders.Place(patient.ID, model.OrderCreate{PlanIDs: []string{ids[1], ids[2], ids[1]}})
	require.NoError(t, err)
	assert.Equal(t, ids[1:], order.PlanIDs)
	assert.Equal(t, []model.Line{{VariantID: variants[0].VariantIDs[0], Quantity: 5}, {VariantID: variants[1].VariantIDs[0], Quantity: 1}, {VariantID: variants[2].VariantIDs[0], Quantity: 1}}, order.Lines)
	both := []any{ids[1], ids[2]}
	assert.Equal(t, both, dataOf(t, event)["treatment_plan_ids"])
	assert.Equal(t, both, b.get("/clinic/orders/"+order.ID).ok(200, "order", "treatment_plan_ids"))
	last := "/clinic/orders?treatment_plan_id=x&treatment_plan_id=" + ids[2]
	assert.Equal(t, []any{order.ID}, b.get(last).column("orders", "id"), "the last value counts")
	_, err = b.fake.Orders.Refund(order.ID, 1)
	require.NoError(t, err, "a changed order stays in the list")
	for _, as := range []*browser{b, {t: t, fake: restarted(t, b.fake), token: b.token}} {
		for n, want := range [][]any{{}, {order.ID}, {order.ID}} {
			assert.Equal(t, want, as.get("/clinic/orders?treatment_plan_id="+ids[n]).column("orders", "id"))
		}
	}
	_, _, err = b.fake.Orders.Place(patient.ID, model.OrderCreate{PlanIDs: []string{ids[0], "x"}})
	require.ErrorIs(t, err, model.ErrNotFound)
}

// A clinic's token has no current practitioner.
func TestClinicTokensHaveNoCustomDosage(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]Option{nil, {WithTuning(Tuning{ClinicTokens: true})}} {
		b := start(t, append(opts, WithInMemory())...)
		practitioner, product := b.fake.Practitioners.All()[0], b.fake.Products.All()[2]
		path := "/catalog/products/" + product.ID
		assert.Equal(t, opts == nil, b.get(path).object(200, "product")["custom_dosage"] != nil)
		custom := b.get(path+"?practitioner_id="+practitioner.ID).object(200, "product", "custom_dosage")
		assert.Equal(t, "2", custom["recommended_amount"])
		assert.Nil(t, b.get(path+"?practitioner_id="+b.fake.Practitioners.All()[1].ID).ok(200, "product", "custom_dosage"))
	}
}

// An unknown practitioner is an invalid value, and not an unknown product.
func TestProductRejectsUnknownPractitioner(t *testing.T) {
	t.Parallel()
	first, second := twoClinics(t)
	path := "/catalog/products/" + first.fake.Products.All()[0].ID
	for _, b := range []*browser{first, second} {
		b.get(path+"?practitioner_id=x").rejected(422, "practitioner_id must exist")
	}
	second.get(path+"?practitioner_id="+first.fake.Practitioners.All()[0].ID).rejected(422, "must exist")
	first.get("/catalog/products/x?practitioner_id=x").rejected(404, "Not Found")
}

// Similarity uses known attributes. Products without a type and ingredients share none.
func TestNewProductsHaveNoSimilarProducts(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	var made model.Product
	for range 2 {
		var err error
		made, _, err = b.fake.Products.Create(model.ProductCreate{})
		require.NoError(t, err)
	}
	assert.Empty(t, b.get("/catalog/products/"+made.ID+"/similar").column("products", "id"))
	assert.NotEmpty(t, b.get("/catalog/products/"+b.fake.Products.All()[0].ID+"/similar").column("products", "id"))
}

func TestProductSearchFollowsChanges(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	made, _, err := b.fake.Products.Create(model.ProductCreate{Name: "Kelpomax"})
	require.NoError(t, err)
	found := func(b *browser, query string) []any {
		return b.get("/catalog/search/products?query="+query).column("products", "id")
	}
	assert.Equal(t, []any{made.ID}, found(b, "kelpomax"))
	_, _, err = b.fake.Products.Update(made.ID, model.ProductUpdate{Name: new("Zingerol")})
	require.NoError(t, err)
	for _, b := range []*browser{b, start(t, WithInMemory(), WithSnapshot([]byte(saved(t, b.fake))))} {
		assert.Empty(t, found(b, "kelpomax"))
		assert.Equal(t, []any{made.ID}, found(b, "zingerol"))
	}
}

// A removed product is absent from the catalog. Orders and plans keep their references.
func TestRemovedProductLeavesCatalog(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	products := b.fake.Products.All()
	product, patient := products[2], b.fake.Patients.All()[0]
	order, _, err := b.fake.Orders.Place(patient.ID, model.OrderCreate{Lines: []model.Line{{VariantID: product.VariantIDs[0], Quantity: 1}}})
	require.NoError(t, err)
	events := len(b.fake.Events())
	require.NoError(t, b.fake.Products.Remove(product.ID))
	assert.Len(t, b.fake.Events(), events, "there is no event type for it")

	left := b.fake.Products.All()
	assert.Len(t, left, len(products)-1)
	listed := b.get("/catalog/products?page[size]=100").column("products", "id")
	assert.Len(t, listed, len(left))
	assert.NotContains(t, listed, product.ID)
	assert.NotContains(t, b.get("/catalog/search/products?page[size]=100").column("products", "id"), product.ID)
	for _, path := range []string{"/catalog/products/" + product.ID, "/catalog/products/" + product.ID + "/similar", "/catalog/variants/" + product.VariantIDs[0]} {
		b.get(path).rejected(404, "Not Found")
	}
	for _, other := range left {
		b.get("/catalog/products/" + other.ID + "/similar").ok(200)
	}
	kept, known := b.fake.Products.Get(product.ID)
	assert.True(t, known)
	assert.True(t, kept.Removed)
	placed, known := b.fake.Orders.Get(order.ID)
	assert.True(t, known)
	assert.Equal(t, order, placed)
	require.ErrorIs(t, b.fake.Products.Remove(product.ID), model.ErrNotFound)
	_, _, err = b.fake.Products.Update(product.ID, model.ProductUpdate{})
	require.ErrorIs(t, err, model.ErrNotFound)
	_, _, err = b.fake.Orders.Place(patient.ID, model.OrderCreate{Lines: []model.Line{{VariantID: product.VariantIDs[0], Quantity: 1}}})
	require.ErrorIs(t, err, model.ErrNotFound)
}

func TestUnknownPageMatchesCaller(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory())
	origin := strings.TrimSuffix(fake.Site().BaseURL, "/api")
	for _, c := range []struct{ path, accept, kind, text string }{
		{"/no/such/page", "text/html,*/*;q=0.8", "text/html; charset=utf-8", "<h1>Not Found</h1>"},
		{"/", "text/html", "text/html; charset=utf-8", "The API is at " + fake.Site().BaseURL},
		{"/no/such/page", "*/*", "application/json; charset=utf-8", "Not Found"},
		{"/api/no/such/call", "text/html", "application/json; charset=utf-8", "Not Found"},
	} {
		fake.Journal.Reset()
		status, header, text := get(t, fake, origin+c.path, c.accept)
		assert.Equal(t, http.StatusNotFound, status, c.path)
		assert.Equal(t, c.kind, header.Get("Content-Type"), c.path)
		assert.Contains(t, text, c.text)
		require.Len(t, fake.Journal.Requests(), 1)
		assert.NotEmpty(t, unexpected(fake.Journal.Requests()[0]), "%s is not an operation", c.path)
	}
}

func TestFaviconIsNotRecorded(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory())
	status, header, text := get(t, fake, strings.TrimSuffix(fake.Site().BaseURL, "/api")+"/favicon.ico", "image/*")
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, "image/svg+xml", header.Get("Content-Type"))
	assert.Contains(t, text, "<svg")
	assert.Empty(t, fake.Journal.Requests())
	fake.Journal.CheckNoUnexpected(t)
}

// get requests a URL with an Accept header.
func get(t *testing.T, fake *Server, address, accept string) (status int, header http.Header, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	request.Header.Set("Accept", accept)
	response, err := fake.HTTPClient().Do(request)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, response.Header, string(body)
}

// A response allocates as much in a world of thousands of rows as in the small one. It would
// allocate more if it copied the rows of the world before it cut a page.
func TestPageDoesNotCopyWorld(t *testing.T) {
	const size = 4000
	small := start(t, WithInMemory())
	large := start(t, WithInMemory(), WithTuning(Tuning{WorldSize: model.WorldSize{Patients: size, Orders: size, Plans: size}}))
	few, many := exemplars(t, small), exemplars(t, large)
	bytes := func(b *browser, e exemplar) uint64 {
		join := "?"
		if strings.Contains(e.path, "?") {
			join = "&"
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 4 {
			b.get(e.path + join + "page[size]=2").ok(http.StatusOK)
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / 4
	}
	for id, e := range few {
		if e.op.Method == http.MethodGet {
			assert.Less(t, bytes(large, many[id]), bytes(small, e)+size*8/2, id)
		}
	}
}
