package dispensarytest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

// oracle responds to a list query by a walk through all rows.
type oracle[T any] struct {
	rows []T
	keep func(row T, query url.Values) bool
	less map[string]func(a, b T) int // by sort_by; "" is the order for order_by alone
	id   func(row T) string
}

// page returns the ids of a page, and the number of rows on all pages.
func (o oracle[T]) page(query url.Values, number, size int) (ids []any, total int) {
	rows := slices.DeleteFunc(slices.Clone(o.rows), func(row T) bool { return !o.keep(row, query) })
	field, descending := query.Get("sort_by"), query.Get("order_by") == "DESC"
	if less := o.less[field]; field != "" || descending {
		slices.SortStableFunc(rows, func(a, b T) int {
			if descending {
				return less(b, a)
			}
			return less(a, b)
		})
	}
	ids = []any{}
	for at := (number - 1) * size; at < min(number*size, len(rows)); at++ {
		ids = append(ids, o.id(rows[at]))
	}
	return ids, len(rows)
}

// inDays reports whether a time matches a date filter.
func inDays(filter string, at time.Time) bool {
	day := at.Format(time.DateOnly)
	from, to, isRange := strings.Cut(filter, "..")
	switch {
	case filter == "":
		return true
	case isRange:
		return from <= day && day <= to
	case filter[0] == '<':
		return day < filter[1:]
	case filter[0] == '>':
		return day > filter[1:]
	}
	return day == filter
}

// asks compares the results of many random queries with an oracle.
func asks[T any](b *browser, o oracle[T], path, key string, questions map[string][]string) {
	b.t.Helper()
	dice := rand.New(rand.NewPCG(7, uint64(len(path))))
	for range 120 {
		query := url.Values{}
		for name, values := range questions {
			if value := values[dice.IntN(len(values))]; value != "" {
				query.Set(name, value)
			}
		}
		size := 1 + dice.IntN(30)
		_, total := o.page(query, 1, size)
		number := 1 + dice.IntN(total/size+2)
		ids, _ := o.page(query, number, size)
		asked := fmt.Sprintf("%s?%s&page[number]=%d&page[size]=%d", path, query.Encode(), number, size)
		got := b.get(asked)
		require.Equal(b.t, float64(total), got.ok(200, "meta", "total_count"), asked)
		require.Equal(b.t, ids, got.column(key, "id"), asked)
	}
}

func TestOrderListsMatchOracle(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	// The clock was set back, so today's orders precede the orders of the world.
	b := start(t, WithInMemory(), WithClock(FrozenClock(store.Epoch.AddDate(0, 0, -20))), WithTuning(Tuning{WorldSize: model.WorldSize{Clinics: 3, Patients: 60, Plans: 40, Orders: 800}}))
	var days, patients, plans, numbers []string
	for i, o := range b.fake.Orders.All() {
		if i%20 == 0 {
			day := o.CompletedAt.Format(time.DateOnly)
			days = append(days, day, ">"+day, "<"+day, "2025-12-10.."+day, day+"..2025-12-10")
			patients, plans, numbers = append(patients, o.PatientID), append(plans, store.OrderPlan(&o)), append(numbers, o.Number)
		}
	}
	for n, id := range patients[:20] { // some at the same time, and some at other times
		_, _, err := b.fake.Orders.Place(id, model.OrderCreate{})
		require.NoError(t, err)
		b.fake.Clock.Advance(time.Duration(n%2) * 7 * time.Hour)
	}
	b.token = b.fake.Tokens.Issue(model.User{}).AccessToken
	often := make([]string, 200) // mostly no filter
	clinic := b.fake.Users()[0].ClinicID
	asks(b, oracle[model.Order]{
		rows: b.fake.Orders.All(), id: func(o model.Order) string { return o.ID },
		keep: func(o model.Order, q url.Values) bool {
			patient, plan, number := q.Get("patient_id"), q.Get("treatment_plan_id"), q.Get("order_number")
			return o.ClinicID == clinic && inDays(q.Get("completed_at"), o.CompletedAt) && (patient == "" || patient == o.PatientID) &&
				(plan == "" || slices.Contains(o.PlanIDs, plan)) && (number == "" || number == o.Number)
		},
		less: map[string]func(a, b model.Order) int{
			"": byCompletion, "completed_at": byCompletion,
			"patient_id":        func(a, b model.Order) int { return strings.Compare(a.PatientID, b.PatientID) },
			"treatment_plan_id": func(a, b model.Order) int { return strings.Compare(store.OrderPlan(&a), store.OrderPlan(&b)) },
			"order_number":      func(a, b model.Order) int { return strings.Compare(a.Number, b.Number) },
		},
	}, "/clinic/orders", "orders", map[string][]string{
		"sort_by": {"", "", "patient_id", "treatment_plan_id", "completed_at", "order_number"}, "order_by": {"", "ASC", "DESC"},
		"completed_at": append(days, often[:len(days)]...), "patient_id": append(patients, often...),
		"treatment_plan_id": append(plans, often...), "order_number": append(numbers, often...),
	})
}

func byCompletion(a, b model.Order) int { return a.CompletedAt.Compare(b.CompletedAt) }

// crowd performs n actions of people in a period of the platform's clock.
func (b *browser) crowd(n int, period time.Duration) {
	b.t.Helper()
	patients, products := b.fake.Patients.All(), b.fake.Products.All()
	for i := range n {
		patient := patients[i*7%len(patients)].ID
		var err error
		switch i % 5 {
		case 0, 1:
			_, _, err = b.fake.Orders.Place(patient, model.OrderCreate{})
		case 2:
			_, _, err = b.fake.Patients.Update(patient, model.PatientUpdate{TextNotification: new(i%2 == 0)})
		case 3:
			_, _, err = b.fake.Plans.Create(patient, model.PlanCreate{})
		default:
			_, _, err = b.fake.Products.Describe(products[i%len(products)].ID, fmt.Sprint(i))
		}
		require.NoError(b.t, err)
		b.fake.Clock.Advance(period / time.Duration(n))
	}
}

func TestEventListsMatchOracle(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	b := start(t, WithInMemory(), WithClock(FrozenClock(store.Epoch)), WithTuning(Tuning{WorldSize: model.WorldSize{Clinics: 2, Patients: 20}}))
	b.crowd(testsize.Of(400, 2000), 25*24*time.Hour) // events older than 30 days disappear
	for range 30 {                                   // at one moment
		_, _, err := b.fake.Patients.Create(model.PatientCreate{})
		require.NoError(t, err)
	}
	b.fake.Clock.Advance(20 * 24 * time.Hour)
	b.token = b.fake.Tokens.Issue(model.User{}).AccessToken
	clinic, now := b.fake.Users()[0].ClinicID, b.fake.Clock.Now()
	var days []string
	for n := range 60 {
		day := store.Epoch.AddDate(0, 0, n).Format(time.DateOnly)
		days = append(days, "", "", day, ">"+day, "<"+day, day+"..2026-02-12")
	}
	created := func(a, b model.Event) int { return a.CreatedAt.Compare(b.CreatedAt) }
	for path, group := range map[string]string{
		"patients": "patient", "treatment_plans": "treatment_plan", "orders": "order", "products": "product", "clinic_keys": "clinic_key",
	} {
		kinds := slices.DeleteFunc(model.EventTypes(), func(kind string) bool { return !strings.HasPrefix(kind, group+".") })
		asks(b, oracle[model.Event]{
			rows: b.fake.Events(), id: func(e model.Event) string { return e.ID },
			keep: func(e model.Event, q url.Values) bool {
				kind := q.Get("event_type")
				return strings.HasPrefix(e.Type, group+".") && (e.ClinicID == "" || e.ClinicID == clinic) &&
					now.Sub(e.CreatedAt) <= store.Retention && inDays(q.Get("created_at"), e.CreatedAt) && (kind == "" || kind == e.Type)
			},
			less: map[string]func(a, b model.Event) int{
				"": created, "created_at": created, "event_type": func(a, b model.Event) int { return strings.Compare(a.Type, b.Type) },
			},
		}, "/events/"+path, "events", map[string][]string{
			"sort_by": {"", "", "event_type", "created_at"}, "order_by": {"", "ASC", "DESC"},
			"created_at": days, "event_type": append(kinds, "", "", ""),
		})
	}
}

// mentions reports whether a text contains all words of a query, ignoring case.
func mentions(text, query string) bool {
	for word := range strings.FieldsSeq(strings.ToLower(query)) {
		if !strings.Contains(strings.ToLower(text), word) {
			return false
		}
	}
	return true
}

// someQueries returns parts of one or two words of texts.
func someQueries(dice *rand.Rand, texts []string) (queries []string) {
	piece := func() string {
		text := texts[dice.IntN(len(texts))]
		from := dice.IntN(len(text))
		return strings.ToValidUTF8(text[from:from+min(len(text)-from, 1+dice.IntN(9))], "")
	}
	for range 100 {
		queries = append(queries, piece(), strings.ToUpper(piece()), piece()+" "+piece())
	}
	return append(queries, "", " ", "zzyzx", "\u00e9", "a zzyzx", "i\u0307")
}

func TestPatientSearchMatchesOracle(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	b := start(t, WithInMemory(), WithClock(frozen()), WithTuning(Tuning{WorldSize: model.WorldSize{Clinics: 2, Patients: 60}}))
	for n, p := range b.fake.Patients.All() {
		if n%3 == 0 {
			_, _, err := b.fake.Patients.Update(p.ID, model.PatientUpdate{FirstName: new("\u0130smail"), LastName: new(fmt.Sprintf("Moved\u00c9%d Van der %d", n, n%7))})
			require.NoError(t, err)
		}
	}
	clinic, patients := b.fake.Users()[0].ClinicID, b.fake.Patients.All()
	var texts []string
	for _, p := range patients {
		texts = append(texts, p.FirstName+" "+p.LastName, p.Email)
	}
	asks(b, oracle[model.Patient]{
		rows: patients, id: func(p model.Patient) string { return p.ID },
		keep: func(p model.Patient, q url.Values) bool {
			return p.ClinicID == clinic && mentions(p.FirstName+"\n"+p.LastName+"\n"+p.Email, q.Get("query"))
		},
	}, "/clinic/search/patients", "patients", map[string][]string{"query": someQueries(rand.New(rand.NewPCG(1, 1)), texts)})
}

func TestProductSearchMatchesOracle(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	for _, filters := range []string{"all", "any"} {
		b := start(t, WithInMemory(), WithBehavior("array-filters="+behavior.Variant(filters)), WithTuning(Tuning{WorldSize: model.WorldSize{Products: 100}}))
		_, _, err := b.fake.Products.Update(b.fake.Products.All()[0].ID, model.ProductUpdate{Name: new("Renamed")})
		require.NoError(t, err)
		b.askForProducts(filters == "any")
	}
}

func (b *browser) askForProducts(anyValue bool) {
	w, products := b.fake.store.World, b.fake.Products.All()
	text := func(p model.Product) string {
		brand, _ := table.Get(w.Brands, p.BrandID)
		text := p.Name + "\n" + brand.Name
		for _, v := range w.ProductVariants(&p) {
			text += "\n" + v.SKU
		}
		return text
	}
	has := func(wanted, ids []string) bool {
		found := 0
		for _, id := range wanted {
			if slices.Contains(ids, id) {
				found++
			}
		}
		return found == len(wanted) || anyValue && found > 0
	}
	var texts, brands []string
	for _, p := range products {
		texts = append(texts, strings.ReplaceAll(text(p), "\n", " "))
	}
	for _, brand := range w.Brands.Rows {
		brands = append(brands, brand.ID, "", "")
	}
	dice := rand.New(rand.NewPCG(3, uint64(len(products))))
	for range 120 {
		query := url.Values{"query": {someQueries(dice, texts)[dice.IntN(306)]}, "brand_id": {brands[dice.IntN(len(brands))]}}
		for filter, terms := range map[string]table.Table[*store.Term]{
			"allergen_ids[]": w.Allergens, "ingredient_ids[]": w.Ingredients, "supplement_type_ids[]": w.SupplementTypes, "third_party_certification_ids[]": w.Certifications,
		} {
			for range max(0, dice.IntN(6)-3) {
				query[filter] = append(query[filter], terms.Rows[dice.IntN(len(terms.Rows))].ID)
			}
		}
		o := oracle[model.Product]{rows: products, id: func(p model.Product) string { return p.ID }, keep: func(p model.Product, q url.Values) bool {
			brand, _ := table.Get(w.Brands, p.BrandID)
			return !brand.Restricted && (q.Get("brand_id") == "" || q.Get("brand_id") == p.BrandID) && mentions(text(p), q.Get("query")) &&
				has(q["allergen_ids[]"], p.AllergenIDs) && has(q["ingredient_ids[]"], p.IngredientIDs) &&
				has(q["supplement_type_ids[]"], []string{p.SupplementTypeID}) && has(q["third_party_certification_ids[]"], p.CertificationIDs)
		}}
		ids, total := o.page(query, 2, 7)
		got := b.get("/catalog/search/products?" + query.Encode() + "&page[number]=2&page[size]=7")
		require.Equal(b.t, float64(total), got.ok(200, "meta", "total_count"), query)
		require.Equal(b.t, ids, got.column("products", "id"), query)
	}
}

func TestSimilarAndCategoryProductsMatchOracle(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	b := start(t, WithInMemory(), WithTuning(Tuning{WorldSize: model.WorldSize{Products: 200}}))
	products := b.fake.Products.All()
	for n := 0; n < len(products); n += 13 {
		self := products[n]
		like := slices.DeleteFunc(slices.Clone(products), func(p model.Product) bool { return p.ID == self.ID || store.Shares(&self, &p) == 0 })
		slices.SortStableFunc(like, func(a, b model.Product) int { return cmp.Compare(store.Shares(&self, &b), store.Shares(&self, &a)) })
		want := []any{}
		for _, p := range like[:min(10, len(like))] {
			want = append(want, p.ID)
		}
		assert.Equal(t, want, b.get("/catalog/products/"+self.ID+"/similar").column("products", "id"))
	}
	for _, category := range b.fake.store.World.Categories.Rows {
		asks(b, oracle[model.Product]{
			rows: products, id: func(p model.Product) string { return p.ID },
			keep: func(p model.Product, _ url.Values) bool { return slices.Contains(p.CategoryIDs, category.ID) },
		}, "/clinic/categories/"+category.ID+"/products", "products", nil)
	}
}
