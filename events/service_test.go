package events_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// bench is a fake platform with a frozen clock, and its events for the first practitioner.
type bench struct {
	platform *dispensarytest.Server
	events.Service
	clock *dispensarytest.Clock
}

// begins is a time of day several hours before midnight.
var begins = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func start(t *testing.T) *bench {
	t.Helper()
	clock := dispensarytest.FrozenClock(begins)
	platform := dispensarytest.New(t, dispensarytest.WithClock(clock))
	return &bench{platform: platform, Service: platform.Client(model.User{}).Events, clock: clock}
}

// happen performs actions that create events of every group, and returns the events.
func (b *bench) happen(t *testing.T) []model.Event {
	t.Helper()
	p := b.platform
	patient, created, err := p.Patients.Create(model.PatientCreate{})
	require.NoError(t, err)
	_, updated, err := p.Patients.Update(patient.ID, model.PatientUpdate{FirstName: new("Changed")})
	require.NoError(t, err)
	plan, planned, err := p.Plans.Create(patient.ID, model.PlanCreate{})
	require.NoError(t, err)
	_, ordered, err := p.Orders.Place(patient.ID, model.OrderCreate{PlanIDs: []string{plan.ID}})
	require.NoError(t, err)
	_, canceled, err := p.Plans.Cancel(plan.ID)
	require.NoError(t, err)
	_, product, err := p.Products.Create(model.ProductCreate{})
	require.NoError(t, err)
	revoked, err := p.Clinics.RevokeKey(b.platform.ClinicKey())
	require.NoError(t, err)
	activated, err := p.Clinics.ActivateKey(b.platform.ClinicKey())
	require.NoError(t, err)
	return []model.Event{created, updated, planned, ordered, canceled, product, revoked, activated}
}

// The data of every event type decodes to the platform's record.
func TestGetReturnsDecodableData(t *testing.T) {
	t.Parallel()
	b := start(t)
	p := b.platform
	made := b.happen(t)
	get := func(i int) events.Event {
		e, err := b.Get(t.Context(), made[i].ID)
		require.NoError(t, err)
		return *e
	}
	patient, err := events.As[clinic.Patient](get(1))
	require.NoError(t, err)
	held, known := p.Patients.Get(patient.Object.ID)
	require.True(t, known)
	assert.Equal(t, held.FirstName, patient.Object.FirstName)
	assert.Equal(t, held.Email, patient.Object.Email)

	plan, err := events.As[treatmentplans.Plan](get(2))
	require.NoError(t, err)
	assert.Equal(t, treatmentplans.StateActive, plan.Object.State, "the plan at the time of the event")
	assert.Equal(t, held.ID, plan.Object.Patient.ID)

	order, err := events.As[clinic.Order](get(3))
	require.NoError(t, err)
	heldOrder, known := p.Orders.Get(order.Object.ID)
	require.True(t, known)
	assert.Equal(t, heldOrder.Number, order.Object.OrderNumber)
	assert.Len(t, order.Object.LineItems, len(heldOrder.Lines))

	product, err := events.As[catalog.Product](get(5))
	require.NoError(t, err)
	_, known = p.Products.Get(product.Object.ID)
	assert.True(t, known)
	_, err = events.As[events.ClinicKey](get(7))
	require.NoError(t, err)
}
