package people

import (
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// emit records an event and hands it to the webhook sender, once for each
// enabled integration. The caller holds the world's lock for writing.
func (p *People) emit(kind, clinicID, objectID string, data any) model.Event {
	return p.emitAt(p.eventTime(objectID), kind, clinicID, objectID, data)
}

// emitAt is emit for an object that has the event's time itself.
func (p *People) emitAt(at time.Time, kind, clinicID, objectID string, data any) model.Event {
	w, now := p.Store.World, p.Clock.Now()
	e := model.Event{ID: w.NewID("event"), Type: kind, CreatedAt: at, ClinicID: clinicID, ObjectID: objectID, Data: view.Encode(data)}
	w.Events.Put(e.ID, &e)
	gone := w.ForgetEvents(now, p.EventLimit)
	w.LastEvents[objectID] = at
	concerned := w.Integrations.Where(func(i *model.Integration) bool {
		return clinicID == "" || clinicID == i.ClinicID // a product concerns all clinics
	})
	enabled := slices.DeleteFunc(slices.Clone(concerned), func(i *model.Integration) bool { return !p.enabled(i) })
	covered := slices.DeleteFunc(slices.Clone(enabled), func(i *model.Integration) bool { return !p.covered(e, i.ClinicID) })
	p.Sender.Accept(e, now, covered, p.refusal(e, concerned, enabled, covered), gone)
	return store.Detached(e)
}

// refusal explains why an event is sent to no integration, or is empty.
func (p *People) refusal(e model.Event, concerned, enabled, covered []*model.Integration) string {
	const inactive = "no integration of the clinic is active: "
	waiting := func(i *model.Integration) bool { return !i.Revoked }
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

// eventTime is when an event of an object happens: now, or a millisecond after the
// object's last one where receivers could not tell the two apart. The caller holds the
// world's lock.
func (p *People) eventTime(objectID string) time.Time {
	now := p.Clock.Now()
	last, known := p.Store.World.LastEvents[objectID]
	if p.Behaviors.Get().EventsTie || !known || now.Truncate(time.Millisecond).After(last) { // the precision of timestamps
		return now
	}
	return last.Add(time.Millisecond)
}

// unwrapped is event data that has no wrapper, an assumption, but in a reading.
func (p *People) unwrapped(kind string, data any) any {
	if p.Behaviors.Get().WrapAll {
		return map[string]any{kind: data}
	}
	return data
}

// covered reports that the delivery conditions let an event be sent to a clinic's
// integrations. The conditions are an assumption.
func (p *People) covered(e model.Event, clinicID string) bool {
	return p.Behaviors.Get().Unconditional || strings.HasPrefix(e.Type, "clinic_key.") || p.Tokens.Covers(clinicID, view.EventScope(e.Type))
}

// activate makes an integration active, once.
func (p *People) activate(id string) {
	p.Store.Lock()
	defer p.Store.Unlock()
	old, _ := p.Store.World.Integrations.Get(id)
	if old.Revoked || !p.ActivatedAt(old).IsZero() {
		return
	}
	changed := *old
	changed.Activated = p.Clock.Now()
	p.Store.World.Integrations.Put(id, &changed)
	p.emit(model.ClinicKeyActivated, old.ClinicID, old.ID, view.ClinicKey(&changed))
}

// forgetEvents drops what is not kept any more.
func (p *People) forgetEvents() {
	p.Store.Lock()
	defer p.Store.Unlock()
	gone := p.Store.World.ForgetEvents(p.Clock.Now(), p.EventLimit)
	p.Sender.Mu.Lock()
	defer p.Sender.Mu.Unlock()
	p.Sender.Forget(p.Clock.Now(), gone)
}

// emitPlan makes the event of a plan's update, with the dosage as event data spells it.
func (p *People) emitPlan(kind string, plan *model.Plan) model.Event {
	return p.emitAt(plan.UpdatedAt, kind, plan.ClinicID, plan.ID, struct {
		Plan view.PlanView[view.EventDosageView] `json:"treatment_plan"`
	}{view.Plan(p.Origin, p.Behaviors.Get().InviteDrafts, plan, view.EventDosage)})
}

// UseClinicKey checks a clinic key. The first request with a valid one
// activates the integration, and is the one API call that makes an event.
func (p *People) UseClinicKey(key, clinicID string) (refusal string) {
	p.Store.RLock()
	found := p.Store.World.IntegrationByKey(key)
	p.Store.RUnlock()
	switch {
	case found == nil || found.ClinicID != clinicID:
		return "The clinic key is invalid"
	case found.Revoked:
		return "The clinic key was revoked"
	case p.ActivatedAt(found).IsZero():
		p.activate(found.ID)
	}
	return ""
}
