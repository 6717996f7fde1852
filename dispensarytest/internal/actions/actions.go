// Package actions implements what people do on the platform itself. As on the real
// platform, an action changes the world and emits an event. The interfaces of package
// dispensarytest document the actions.
package actions

import (
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Actions contains all actions, by object.
type Actions struct {
	Patients  Patients
	Plans     Plans
	Protocols Protocols
	Orders    Orders
	Products  Products
	Clinics   Clinics

	Practitioners records[model.Practitioner]
	Variants      records[model.Variant]

	events records[model.Event]
}

// New returns the actions on a platform.
func New(config Config) *Actions {
	a := &actor{config}
	variants := records[model.Variant]{a, "variant", func(w *store.World) *table.Table[*model.Variant] { return &w.Variants }}
	return &Actions{
		Patients:  Patients{records[model.Patient]{a, "patient", func(w *store.World) *table.Table[*model.Patient] { return &w.Patients }}},
		Plans:     Plans{records[model.Plan]{a, "treatment plan", func(w *store.World) *table.Table[*model.Plan] { return &w.Plans }}},
		Protocols: Protocols{records[model.Protocol]{a, "protocol", func(w *store.World) *table.Table[*model.Protocol] { return &w.Protocols }}},
		Orders:    Orders{records[model.Order]{a, "order", func(w *store.World) *table.Table[*model.Order] { return &w.Orders }}},
		Products:  Products{records[model.Product]{a, "product", func(w *store.World) *table.Table[*model.Product] { return &w.Products }}, variants},
		Clinics:   Clinics{records[model.Clinic]{a, "clinic", func(w *store.World) *table.Table[*model.Clinic] { return &w.Clinics }}},

		Practitioners: records[model.Practitioner]{a, "practitioner", func(w *store.World) *table.Table[*model.Practitioner] { return &w.Practitioners }},
		Variants:      variants,

		events: records[model.Event]{a, "event", func(w *store.World) *table.Table[*model.Event] { return &w.Events }},
	}
}

// Events returns the stored events, oldest first.
func (p *Actions) Events() []model.Event {
	p.events.Store.Lock()
	p.events.Store.World.ForgetEvents(p.events.Clock.Now(), p.events.EventLimit)
	p.events.Store.Unlock()
	return p.events.All()
}

// Overview returns up to latest rows of each kind, newest first, and the totals.
func (p *Actions) Overview(latest int) (o model.Overview) {
	p.events.Store.Look(func(w *store.World) {
		o.Patients, o.Totals.Patients = newest(w.Patients, latest)
		o.Plans, o.Totals.Plans = newest(w.Plans, latest)
		o.Orders, o.Totals.Orders = newest(w.Orders, latest)
		o.Products, o.Totals.Products = newest(w.Products, latest)
		o.Events, o.Totals.Events = newest(w.Events, latest)
	})
	return o
}

// newest copies the last rows of a table, newest first, and counts all rows.
func newest[T any](rows table.Table[*T], most int) (copied []T, total int) {
	total = len(rows.Rows)
	for place := total - 1; place >= max(0, total-most); place-- {
		copied = append(copied, store.Detached(*rows.Rows[place]))
	}
	return copied, total
}

// Config describes the platform on which people act.
type Config struct {
	Store      *store.Store
	Clock      *clock.Clock
	Behaviors  *rules.Current
	Tokens     *tokens.Store
	Sender     *webhooks.Sender
	Changes    *clock.Notifier
	Origin     string // of the links in events
	EventLimit int
}

// actor contains the parts that all actions share.
type actor struct{ Config }

// begin locks the world for an action. done unlocks it and announces the change.
func (a *actor) begin() (w *store.World, done func()) {
	a.Store.Lock()
	return a.Store.World, func() {
		a.Store.Unlock()
		a.Changes.Notify()
	}
}

// records are all rows of one table, and the actions on them.
type records[T any] struct {
	*actor
	kind string // of a row, in errors
	of   func(*store.World) *table.Table[*T]
}

// All copies the table.
func (r records[T]) All() (rows []T) {
	r.Store.Look(func(w *store.World) {
		rows = table.Map(r.of(w).Rows, func(row *T) T { return store.Detached(*row) })
	})
	return rows
}

// Get copies a row.
func (r records[T]) Get(id string) (row T, known bool) {
	r.Store.Look(func(w *store.World) {
		var found *T
		if found, known = table.Get(*r.of(w), id); known {
			row = store.Detached(*found)
		}
	})
	return row, known
}

// revise performs an action that replaces a row by a changed copy. emit returns the event of
// the action. If change fails, nothing changes.
func (r records[T]) revise(action, id string, change func(w *store.World, row *T) error, emit func(w *store.World, row *T) model.Event) (out T, e model.Event, err error) {
	w, done := r.begin()
	defer done()
	old, known := table.Get(*r.of(w), id)
	if !known {
		return out, e, store.Unknown(action, r.kind, id)
	}
	row := *old
	if err := change(w, &row); err != nil {
		return out, e, err
	}
	table.Put(r.of(w), &row)
	out, e = store.Detached(row), emit(w, &row)
	return out, e, nil
}

// emit stores an event and passes it to the webhook sender, once for each enabled integration.
// The caller holds the world's lock for writing.
func (a *actor) emit(kind, clinicID, objectID string, data any) model.Event {
	return a.emitAt(a.eventTime(objectID), kind, clinicID, objectID, data)
}

// emitAt emits an event of an object that has the event's time itself.
func (a *actor) emitAt(at time.Time, kind, clinicID, objectID string, data any) model.Event {
	w, now := a.Store.World, a.Clock.Now()
	e := model.Event{ID: w.NewID("event"), Type: kind, CreatedAt: at, ClinicID: clinicID, ObjectID: objectID, Data: view.Encode(data)}
	table.Put(&w.Events, &e)
	w.ForgetEvents(now, a.EventLimit)
	if at = at.Truncate(time.Millisecond); w.LastObjects == nil || !at.Equal(w.LastEvent) {
		w.LastEvent, w.LastObjects = at, map[string]bool{}
	}
	w.LastObjects[objectID] = true
	concerned := table.Where(w.Integrations.Rows, func(i *store.Integration) bool {
		return clinicID == "" || clinicID == i.ClinicID // a product concerns all clinics
	})
	enabled := slices.DeleteFunc(slices.Clone(concerned), func(i *store.Integration) bool { return !a.enabled(i) })
	covered := slices.DeleteFunc(slices.Clone(enabled), func(i *store.Integration) bool { return !a.covered(e, i.ClinicID) })
	told := e
	told.NotSent = a.Sender.Accept(e, now, covered, a.rejection(e, concerned, enabled, covered))
	table.Put(&w.Events, &told)
	return store.Detached(told)
}

// rejection returns the reason for which an event is sent to no integration, or "".
func (a *actor) rejection(e model.Event, concerned, enabled, covered []*store.Integration) string {
	const inactive = "no integration of the clinic is active: "
	waiting := func(i *store.Integration) bool { return !i.Revoked }
	switch {
	case len(covered) > 0:
		return ""
	case len(enabled) > 0:
		return "no live token of the clinic has the scope " + view.EventScope(e.Type)
	case slices.ContainsFunc(concerned, waiting):
		return inactive + "send a request with its clinic key, or activate it: Clinics.ActivateKey, dispensary trigger clinic_key.activated"
	}
	return inactive + "its clinic key was revoked"
}

// eventTime returns the time for a new event of an object: now, but not before the last event of
// any object, and a millisecond after the last event of this one if both would have the same
// timestamp. The caller holds the world's lock.
func (a *actor) eventTime(objectID string) time.Time {
	w, now := a.Store.World, a.Clock.Now()
	switch {
	case a.Behaviors.Get().Is(behavior.EventTimesAsTheyFall) || now.Truncate(time.Millisecond).After(w.LastEvent): // the precision of timestamps
		return now
	case w.LastObjects[objectID]:
		return w.LastEvent.Add(time.Millisecond)
	}
	return w.LastEvent
}

// unwrapped returns event data without a wrapper, unless the behavior wraps all data. That the
// data has no wrapper is an assumption.
func (a *actor) unwrapped(kind string, data any) any {
	if a.Behaviors.Get().Is(behavior.UnwrappedEventDataNone) {
		return map[string]any{kind: data}
	}
	return data
}

// covered reports whether the delivery conditions allow an event for a clinic's integrations.
// The conditions are an assumption.
func (a *actor) covered(e model.Event, clinicID string) bool {
	return a.Behaviors.Get().Is(behavior.DeliveryConditionsOff) || strings.HasPrefix(e.Type, "clinic_key.") || a.Tokens.Covers(clinicID, view.EventScope(e.Type))
}

// emitPlan emits the event of a changed plan. Its dosage has the field names of event data.
func (a *actor) emitPlan(kind string, plan *model.Plan) model.Event {
	return a.emitAt(plan.UpdatedAt, kind, plan.ClinicID, plan.ID, map[string]view.PlanView[view.EventDosageView]{
		"treatment_plan": view.Plan(a.Origin, a.Behaviors.Get().Is(behavior.DraftInvitationPresent), plan, view.EventDosage),
	})
}

// enabled reports whether an integration receives events.
func (a *actor) enabled(i *store.Integration) bool {
	return !i.Revoked && !store.ActivatedAt(i, a.Behaviors.Get()).IsZero()
}
