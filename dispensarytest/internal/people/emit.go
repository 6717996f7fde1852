package people

import (
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// emit stores an event and passes it to the webhook sender, once for each enabled integration.
// The caller holds the world's lock for writing.
func (a *actions) emit(kind, clinicID, objectID string, data any) model.Event {
	return a.emitAt(a.eventTime(objectID), kind, clinicID, objectID, data)
}

// emitAt emits an event of an object that has the event's time itself.
func (a *actions) emitAt(at time.Time, kind, clinicID, objectID string, data any) model.Event {
	w, now := a.Store.World, a.Clock.Now()
	e := model.Event{ID: w.NewID("event"), Type: kind, CreatedAt: at, ClinicID: clinicID, ObjectID: objectID, Data: view.Encode(data)}
	table.Put(&w.Events, e.ID, &e)
	gone := w.ForgetEvents(now, a.EventLimit)
	w.LastEvents[objectID] = at
	concerned := table.Where(w.Integrations, func(i *store.Integration) bool {
		return clinicID == "" || clinicID == i.ClinicID // a product concerns all clinics
	})
	enabled := slices.DeleteFunc(slices.Clone(concerned), func(i *store.Integration) bool { return !a.enabled(i) })
	covered := slices.DeleteFunc(slices.Clone(enabled), func(i *store.Integration) bool { return !a.covered(e, i.ClinicID) })
	told := e
	told.NotSent = a.Sender.Accept(e, now, covered, a.refusal(e, concerned, enabled, covered), gone)
	table.Put(&w.Events, e.ID, &told)
	return store.Detached(told)
}

// refusal returns the reason for which an event is sent to no integration, or "".
func (a *actions) refusal(e model.Event, concerned, enabled, covered []*store.Integration) string {
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

// eventTime returns the time for a new event of an object: now, or a millisecond after its
// last event if both would have the same timestamp. The caller holds the world's lock.
func (a *actions) eventTime(objectID string) time.Time {
	now := a.Clock.Now()
	last, known := a.Store.World.LastEvents[objectID]
	if a.Behaviors.Get().EventsTie || !known || now.Truncate(time.Millisecond).After(last) { // the precision of timestamps
		return now
	}
	return last.Add(time.Millisecond)
}

// unwrapped returns event data without a wrapper, unless the behavior wraps all data. That the
// data has no wrapper is an assumption.
func (a *actions) unwrapped(kind string, data any) any {
	if a.Behaviors.Get().WrapAll {
		return map[string]any{kind: data}
	}
	return data
}

// covered reports whether the delivery conditions allow an event for a clinic's integrations.
// The conditions are an assumption.
func (a *actions) covered(e model.Event, clinicID string) bool {
	return a.Behaviors.Get().Unconditional || strings.HasPrefix(e.Type, "clinic_key.") || a.Tokens.Covers(clinicID, view.EventScope(e.Type))
}

// forgetEvents deletes events beyond the retention period and the limit.
func (a *actions) forgetEvents() {
	a.Store.Lock()
	defer a.Store.Unlock()
	gone := a.Store.World.ForgetEvents(a.Clock.Now(), a.EventLimit)
	a.Sender.Forget(a.Clock.Now(), gone)
}

// emitPlan emits the event of a changed plan. Its dosage has the field names of event data.
func (a *actions) emitPlan(kind string, plan *model.Plan) model.Event {
	return a.emitAt(plan.UpdatedAt, kind, plan.ClinicID, plan.ID, struct {
		Plan view.PlanView[view.EventDosageView] `json:"treatment_plan"`
	}{view.Plan(a.Origin, a.Behaviors.Get().InviteDrafts, plan, view.EventDosage)})
}

// enabled reports whether an integration receives events.
func (a *actions) enabled(i *store.Integration) bool {
	return !i.Revoked && !store.ActivatedAt(i, a.Behaviors.Get()).IsZero()
}
