package dispensarytest

import (
	"hash/fnv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// print is a number for what a world's rows say, not for where they are.
func printed(t testing.TB, w *store.World) uint64 {
	t.Helper()
	h := fnv.New64a()
	for o := range w.Orders.All() {
		h.Write([]byte(o.ID + o.Number + o.PatientID + o.PaymentTotal.String() + view.Time(o.CompletedAt)))
	}
	for p := range w.Patients.All() {
		h.Write([]byte(p.ID + p.Email + p.MobileNumber + p.DateOfBirth + p.ClinicID))
	}
	for p := range w.Products.All() {
		h.Write([]byte(p.ID + p.Name + p.VariantIDs[0]))
	}
	return h.Sum64()
}

func generated(seed uint64, size model.WorldSize) *store.World {
	w := store.BuildWorld(seed, model.UnitedStates, false)
	w.Enlarge(size)
	return w
}

func TestSameSeedSameWorld(t *testing.T) {
	t.Parallel()
	size := model.WorldSize{Clinics: 3, Patients: 300, Products: 200, Plans: 100, Orders: 500}
	one := generated(7, size)
	assert.Equal(t, printed(t, one), printed(t, generated(7, size)))
	assert.NotEqual(t, printed(t, one), printed(t, generated(8, size)))
	_, err := Start(WithWorldSize(model.WorldSize{Orders: -1}))
	require.Error(t, err)
}

func TestGeneratedWorldsAreWhole(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithWorldSize(model.WorldSize{Clinics: 3, Patients: 300, Products: 200, Plans: 100, Orders: 500}))
	p := b.fake
	assert.Len(t, p.Clinics.All(), 3)
	assert.Len(t, p.Patients.All(), 300)
	assert.Len(t, p.Products.All(), 200)
	assert.Len(t, p.Plans.All(), 100)
	assert.Len(t, p.Orders.All(), 500)
	assert.Len(t, b.fake.ClinicKeys(), 3)
	clinics := map[string]bool{}
	for _, user := range b.fake.Users() {
		b.token = b.fake.Tokens.Issue(user).AccessToken
		clinic := b.get("/clinic").object(200, "clinic")
		clinics[clinic["id"].(string)] = true
		assert.InDelta(t, 100, clinic["patient_count"], 4)
		mine := b.get("/clinic/orders").object(200, "meta")["total_count"].(float64)
		assert.Greater(t, mine, 100.0)
	}
	assert.Len(t, clinics, 3)
	var before time.Time
	for _, o := range p.Orders.All() {
		assert.False(t, o.CompletedAt.Before(before), "orders come as time goes by")
		before = o.CompletedAt
	}
}

// Indexes say what a walk through all rows says.
func TestIndexesAgreeWithScans(t *testing.T) {
	t.Parallel()
	w := generated(3, model.WorldSize{Clinics: 2, Patients: 100, Plans: 80, Orders: 300})
	f := w.Fork()
	for p := range f.Patients.All() {
		assert.Equal(t, f.Orders.Where(func(o *model.Order) bool { return o.PatientID == p.ID }), orNil(f.Orders.Span(store.OrdersByPatient, p.ClinicID, p.ID).Created().All()))
		assert.Equal(t, f.Plans.Where(func(o *model.Plan) bool { return o.PatientID == p.ID }), orNil(f.Plans.Span(store.PlansByPatient, p.ID).Created().All()))
	}
	jane := *f.Patients.At(0)
	jane.MetadataID = "moved"
	f.PutPatient(&jane)
	assert.Zero(t, f.Patients.Span(store.PatientsByMetadata, jane.ClinicID, "ehr-1001").Len())
	assert.Equal(t, []*model.Patient{&jane}, f.Patients.Span(store.PatientsByMetadata, jane.ClinicID, "moved").Created().All())
	assert.Equal(t, 1, w.Patients.Span(store.PatientsByMetadata, jane.ClinicID, "ehr-1001").Len(), "the origin knows nothing of it")
}

func orNil[T any](rows []*T) []*T {
	if len(rows) == 0 {
		return nil
	}
	return rows
}

// Target: 2 seconds.
func BenchmarkBuildLargeWorld(b *testing.B) {
	for b.Loop() {
		generated(1, model.LargeWorld())
	}
}

// Target: 1 millisecond, listener included.
func BenchmarkForkLargeWorld(b *testing.B) {
	fake := New(b, WithInMemory(), WithWorldSize(model.LargeWorld()))
	for b.Loop() {
		if _, _, err := fake.Patients.Register(model.NewPatient{}); err != nil {
			b.Fatal(err)
		}
		fork, err := Start(WithInMemory(), WithSnapshot(fake.Snapshot()))
		if err != nil {
			b.Fatal(err)
		}
		if err := fork.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOrdersOfOnePatient(b *testing.B) {
	fake := New(b, WithInMemory(), WithWorldSize(model.LargeWorld()))
	token, path := fake.Tokens.Issue(model.User{}).AccessToken, onePatient(fake)+"/orders"
	b.ResetTimer()
	rate(b, fake.HTTPClient(), fake.origin+path, token)
}
