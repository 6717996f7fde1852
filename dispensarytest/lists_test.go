package dispensarytest

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Every list is cut into the same pages, and the pages make up the list.
func TestEveryListIsPaged(t *testing.T) {
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
		b.get(e.path + join + "page[number]=&page[size]=").ok(200)
		for _, wrong := range []string{"page[number]=0", "page[size]=0", "page[number]=1.5", "page[size]=ten", "page[number]=-1", "page[size]=1e2"} {
			b.get(e.path+join+wrong).refused(422, "must be a whole number above 0")
		}
	}
}

// Every parameter with a set of values refuses others, in every list that has it.
func TestEveryFilterRefusesNonsense(t *testing.T) {
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
				b.get(strings.Split(e.path, "?")[0]+"?"+query.Encode()).refused(422, name+" must be")
				checked++
			}
		}
	}
	assert.Greater(t, checked, 60)
}

// sorted tells whether the values of a column stand in an order.
func inSequence(values []any, descending bool) bool {
	return slices.IsSortedFunc(values, func(a, b any) int {
		if descending {
			a, b = b, a
		}
		return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
}

func TestEverySortSorts(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	hook := newReceiver(nil)
	hook.secret = b.fake.Application().ChallengeToken
	require.NoError(t, b.fake.Webhooks.RegisterHandler(hook))
	p := b.fake
	jane, sam := p.Patients.All()[0], p.Patients.All()[1]
	for i := range 6 {
		patient := []model.Patient{jane, sam}[i%2]
		plan, _, err := p.Plans.Create(patient.ID, model.NewPlan{})
		require.NoError(t, err)
		_, e, err := p.Orders.Place(patient.ID, model.NewOrder{PlanIDs: []string{plan.ID}})
		require.NoError(t, err)
		require.NoError(t, b.wait(e))
		_, _, err = p.Plans.Update(p.Plans.All()[i/2].ID, model.PlanChange{})
		require.NoError(t, err)
		_, _, err = p.Products.Describe(p.Products.All()[i].ID, "<p>x</p>")
		require.NoError(t, err)
		_, _, err = p.Products.Update(p.Products.All()[i].ID, model.ProductChange{})
		require.NoError(t, err)
		b.fake.Clock().Advance(17 * time.Hour)
	}
	b.token = b.fake.Tokens.Issue(model.User{}).AccessToken
	for _, c := range []struct{ path, key, sortBy, column string }{
		{"/clinic/orders", "orders", "patient_id", "patient_id"},
		{"/clinic/orders", "orders", "treatment_plan_id", "treatment_plan_ids"},
		{"/clinic/orders", "orders", "completed_at", "completed_at"},
		{"/clinic/orders", "orders", "order_number", "order_number"},
		{"/clinic/patients/" + jane.ID + "/treatment_plans", "treatment_plans", "created_at", "created_at"},
		{"/clinic/patients/" + jane.ID + "/treatment_plans", "treatment_plans", "updated_at", "updated_at"},
		{"/clinic/practitioners/" + p.Clinics.Practitioners()[0].ID + "/protocols", "protocols", "name", "name"},
		{"/clinic/practitioners/" + p.Clinics.Practitioners()[0].ID + "/protocols", "protocols", "current_state", "current_state"},
		{"/events/orders", "events", "created_at", "created_at"},
		{"/events/orders", "events", "event_type", "type"},
		{"/events/products", "events", "event_type", "type"},
		{"/events/products", "events", "created_at", "created_at"},
		{"/events/treatment_plans", "events", "event_type", "type"},
		{"/webhooks/deliveries", "webhook_deliveries", "attempted_at", "attempted_at"},
	} {
		for _, order := range []string{"", "ASC", "DESC"} {
			got := b.get(c.path+"?page[size]=100&sort_by="+c.sortBy+"&order_by="+order).column(c.key, c.column)
			require.Greater(t, len(got), 2, c.path)
			assert.True(t, inSequence(got, order == "DESC"), "%s by %s %s: %v", c.path, c.sortBy, order, got)
		}
	}
	ids := func(order string) (ids []any) {
		for _, row := range b.get("/webhooks/deliveries?page[size]=100&sort_by=event_id&order_by="+order).ok(200, "webhook_deliveries").([]any) {
			ids = append(ids, row.(map[string]any)["event_payload"].(map[string]any)["event"].(map[string]any)["id"])
		}
		return ids
	}
	assert.True(t, inSequence(ids("ASC"), false))
	assert.True(t, inSequence(ids("DESC"), true))
}

// order_by alone turns the order of creation around.
func TestDescendingWithoutField(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	p := b.fake
	for range 3 {
		b.fake.Clock().Advance(time.Minute)
		_, _, err := p.Orders.Place(p.Patients.All()[0].ID, model.NewOrder{})
		require.NoError(t, err)
		_, _, err = p.Plans.Create(p.Patients.All()[0].ID, model.NewPlan{})
		require.NoError(t, err)
	}
	for path, key := range map[string]string{
		"/clinic/orders": "orders", "/events/orders": "events", "/clinic/patients/" + p.Patients.All()[0].ID + "/treatment_plans": "treatment_plans",
		"/clinic/practitioners/" + p.Clinics.Practitioners()[0].ID + "/protocols": "protocols",
	} {
		up, down := b.get(path).column(key, "id"), b.get(path+"?order_by=DESC").column(key, "id")
		slices.Reverse(down)
		assert.Equal(t, up, down, path)
	}
}

func TestOrderFilters(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	p := b.fake
	orders := p.Orders.All()
	day := func(i int) string { return orders[i].CompletedAt.Format(time.DateOnly) }
	for query, want := range map[string][]int{
		"":                                  {0, 1, 2},
		"patient_id=" + orders[1].PatientID: {1},
		"patient_id=nobody":                 {},
		"order_number=" + orders[2].Number:  {2},
		"order_number=R":                    {},
		"treatment_plan_id=" + p.Plans.All()[0].ID:                                        {0},
		"treatment_plan_id=" + p.Plans.All()[0].ID + "&patient_id=" + orders[1].PatientID: {},
		"completed_at=" + day(1):                                                          {1},
		"completed_at=>" + day(1):                                                         {2},
		"completed_at=<" + day(1):                                                         {0},
		"completed_at=" + day(1) + ".." + day(2):                                          {1, 2},
		"completed_at=" + day(2) + ".." + day(0):                                          {},
		"completed_at=>" + day(0) + "&order_by=":                                          {1, 2},
		"completed_at=<2000-01-01&patient_id=":                                            {},
		"sort_by=order_number&order_by=DESC":                                              {2, 1, 0},
		"completed_at=>2000-01-01&order_by=DESC":                                          {2, 1, 0},
		"completed_at=1999-01-01..2099-01-01":                                             {0, 1, 2},
		"patient_id=x&patient_id=" + orders[0].PatientID:                                  {0}, // the last value counts
	} {
		want := slices.Collect(func(yield func(any) bool) {
			for _, i := range want {
				if !yield(orders[i].ID) {
					return
				}
			}
		})
		if want == nil {
			want = []any{}
		}
		assert.Equal(t, want, b.get("/clinic/orders?"+strings.NewReplacer(">", "%3E", "<", "%3C").Replace(query)).column("orders", "id"), query)
	}
}

func TestDeliveryFilters(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()), WithBehavior(DeliveryConditionsOff))
	hook := newReceiver(func(n int, w http.ResponseWriter, challenge string) {
		if n == 1 {
			challenge = "wrong"
		}
		acknowledge(w, challenge)
	})
	hook.secret = b.fake.Application().ChallengeToken
	require.NoError(t, b.fake.Webhooks.RegisterHandler(hook))
	_, first := b.place()
	_ = b.wait(first) // the first attempt fails
	b.fake.Clock().Advance(30 * time.Second)
	_, second := b.place()
	require.NoError(t, b.wait(second))
	b.token = b.fake.Tokens.Issue(model.User{}).AccessToken
	events := func(query string) []any {
		found := []any{}
		for _, row := range b.get("/webhooks/deliveries?"+query).ok(200, "webhook_deliveries").([]any) {
			found = append(found, row.(map[string]any)["event_payload"].(map[string]any)["event"].(map[string]any)["id"])
		}
		return found
	}
	assert.Equal(t, []any{first.ID, second.ID}, events(""))
	assert.Equal(t, []any{first.ID}, events("successfully_delivered=false"))
	assert.Equal(t, []any{second.ID}, events("successfully_delivered=true"))
	assert.Equal(t, []any{second.ID}, events("event_id="+second.ID))
	assert.Empty(t, events("event_id=none"))
	assert.Len(t, events("attempted_at=2026-03-02"), 2)
	assert.Empty(t, events("attempted_at=%3E2026-03-02"))
	assert.Equal(t, []any{first.ID}, events("attempted_at=2026-03-02&successfully_delivered=false"))
	assert.Equal(t, []any{second.ID, first.ID}, events("order_by=DESC"))

	b.fake.Clock().Advance(time.Minute)
	assert.Equal(t, []any{first.ID, second.ID}, events("successfully_delivered=true"), "the retry came through")
	b.fake.Clock().Advance(30*24*time.Hour - 90*time.Second)
	b.token = b.fake.Tokens.Issue(model.User{}).AccessToken
	assert.Equal(t, []any{first.ID, second.ID}, events(""))
	b.fake.Clock().Advance(time.Second)
	assert.Equal(t, []any{second.ID}, events(""), "a delivery goes with its event, after 30 days")
	b.fake.Clock().Advance(30 * time.Second)
	assert.Empty(t, events(""))
}

func TestProductFilters(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	p := b.fake
	names := func(keep func(model.Product) bool) []any {
		found := []any{}
		for _, product := range p.Products.All() {
			if product.Name != "Research Blend Q" && keep(product) {
				found = append(found, product.Name)
			}
		}
		return found
	}
	search := func(query url.Values) []any {
		query.Set("page[size]", "100")
		return b.get("/catalog/search/products?"+query.Encode()).column("products", "name")
	}
	chosen := p.Products.All()[11]
	assert.Equal(t, names(func(model.Product) bool { return true }), search(url.Values{}))
	assert.Equal(t, names(func(x model.Product) bool { return x.BrandID == chosen.BrandID }), search(url.Values{"brand_id": {chosen.BrandID}}))
	assert.Equal(t, names(func(x model.Product) bool { return x.SupplementTypeID == chosen.SupplementTypeID }), search(url.Values{"supplement_type_ids[]": {chosen.SupplementTypeID}}))
	for filter, of := range map[string]func(model.Product) []string{
		"allergen_ids[]":                  func(x model.Product) []string { return x.AllergenIDs },
		"ingredient_ids[]":                func(x model.Product) []string { return x.IngredientIDs },
		"third_party_certification_ids[]": func(x model.Product) []string { return x.CertificationIDs },
	} {
		ids := of(chosen)
		for n := range len(ids) + 1 {
			assert.Equal(t, names(func(x model.Product) bool {
				return !slices.ContainsFunc(ids[:n], func(id string) bool { return !slices.Contains(of(x), id) })
			}), search(url.Values{filter: ids[:n]}), filter)
		}
		assert.Empty(t, search(url.Values{filter: {"none"}}))
	}
	assert.Equal(t, names(func(x model.Product) bool {
		return x.BrandID == chosen.BrandID && slices.Contains(x.AllergenIDs, chosen.AllergenIDs[0])
	}), search(url.Values{"brand_id": {chosen.BrandID}, "allergen_ids[]": chosen.AllergenIDs[:1]}))
	variant, _ := p.Products.Variant(chosen.VariantIDs[0])
	assert.Equal(t, []any{chosen.Name}, search(url.Values{"query": {strings.ToLower(variant.SKU)}}), "SKUs are searched, too")
	assert.Equal(t, search(url.Values{"query": {"vitamin"}}), search(url.Values{"query": {"  VITAMIN  "}}))
	assert.Empty(t, search(url.Values{"query": {"vitamin zzz"}}))
}

func TestProtocolFilters(t *testing.T) {
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
	b.get("/clinic/practitioners/nobody/protocols").refused(404, "Not Found")
	b.get("/clinic/practitioners/nobody/templates").refused(404, "Not Found")
}

func TestPatientSearch(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	for query, want := range map[string][]any{
		"jane": {"Doe"}, "JANE": {"Doe"}, "doe jane": {"Doe"}, "jane okafor": {}, "": {"Doe", "Okafor", "Raman"}, "sam": {"Okafor"},
		"priya.raman@": {"Raman"}, "%": {}, "jane\tdoe": {"Doe"},
	} {
		got := b.get("/clinic/search/patients?query="+url.QueryEscape(query)).column("patients", "last_name")
		if query == "" {
			got = got[:3]
		}
		assert.Equal(t, want, got, "%q", query)
	}
}

func TestBrandFilters(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	all := b.get("/catalog/brands").column("brands", "name")
	for query, want := range map[string]int{"available=true": 8, "available=false": 8, "clinic_permitted=true": 7, "clinic_permitted=false": 8, "available=true&clinic_permitted=true": 7} {
		assert.Len(t, b.get("/catalog/brands?"+query).column("brands", "id"), want, query)
	}
	p := b.fake
	for _, product := range p.Products.All() {
		if product.BrandID != p.Products.Brands()[0].ID {
			continue
		}
		for _, id := range product.VariantIDs {
			_, _, err := p.Products.UpdateVariant(id, model.VariantChange{Status: new(model.VariantUnavailable)})
			require.NoError(t, err)
		}
		assert.Equal(t, "unavailable", b.get("/catalog/products/"+product.ID).ok(200, "product", "status"))
	}
	assert.Equal(t, all[1:], b.get("/catalog/brands?available=true").column("brands", "name"), "nothing of the first brand is left")
	assert.Equal(t, "unavailable", b.get("/catalog/brands/"+p.Products.Brands()[0].ID).ok(200, "brand", "status"))
}

// An order can be for several plans, and each of them finds it.
func TestOrdersOfSeveralPlans(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	p := b.fake
	patient, variants := p.Patients.All()[0], p.Products.All()
	var ids []string
	for n := range 3 {
		plan, _, err := p.Plans.Create(patient.ID, model.NewPlan{Recommendations: []model.Recommendation{
			{VariantID: variants[0].VariantIDs[0], UnitsToPurchase: n + 1}, {VariantID: variants[n].VariantIDs[0], UnitsToPurchase: 1},
		}})
		require.NoError(t, err)
		ids = append(ids, plan.ID)
	}
	order, event, err := p.Orders.Place(patient.ID, model.NewOrder{PlanIDs: []string{ids[1], ids[2], ids[1]}})
	require.NoError(t, err)
	assert.Equal(t, ids[1:], order.PlanIDs)
	assert.Equal(t, []model.Line{{VariantID: variants[0].VariantIDs[0], Quantity: 5}, {VariantID: variants[1].VariantIDs[0], Quantity: 1}, {VariantID: variants[2].VariantIDs[0], Quantity: 1}}, order.Lines)
	both := []any{ids[1], ids[2]}
	assert.Equal(t, both, dataOf(t, event)["treatment_plan_ids"])
	assert.Equal(t, both, b.get("/clinic/orders/"+order.ID).ok(200, "order", "treatment_plan_ids"))
	_, err = p.Orders.Refund(order.ID, 1)
	require.NoError(t, err, "a change of the order keeps it where it is found")
	for _, as := range []*browser{b, {t: t, fake: b.fake.Fork(t), token: b.token}} {
		for n, want := range [][]any{{}, {order.ID}, {order.ID}} {
			assert.Equal(t, want, as.get("/clinic/orders?treatment_plan_id="+ids[n]).column("orders", "id"))
		}
	}
	_, _, err = p.Orders.Place(patient.ID, model.NewOrder{PlanIDs: []string{ids[0], "x"}})
	require.ErrorIs(t, err, model.ErrNotFound)
}
