package people

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Clinics performs actions of clinics on the keys of integrations.
type Clinics struct{ *actions }

func (p Clinics) All() []model.Clinic {
	return all(p.actions, func(w *store.World) table.Table[*model.Clinic] { return w.Clinics })
}

func (p Clinics) Get(id string) (model.Clinic, bool) {
	return find(p.actions, func(w *store.World) table.Table[*model.Clinic] { return w.Clinics }, id)
}

func (p Clinics) RevokeKey(key string) (e model.Event, err error) {
	w, done := p.begin()
	defer done()
	old := w.IntegrationByKey(key)
	switch {
	case old == nil:
		return e, store.Unknown("RevokeClinicKey", "clinic key", key)
	case old.Revoked:
		return e, store.Refused("RevokeClinicKey", model.ErrState, "the key is already revoked")
	}
	e = p.emit(model.EventClinicKeyRevoked, old.ClinicID, old.ID, view.ClinicKey(old))
	changed := *old
	changed.Revoked = true
	table.Put(&w.Integrations, changed.ID, &changed)
	p.Sender.Revoke(changed.ID)
	return e, nil
}

func (p Clinics) ActivateKey(key string) (e model.Event, err error) {
	w, done := p.begin()
	defer done()
	old := w.IntegrationByKey(key)
	switch {
	case old == nil:
		return e, store.Unknown("ActivateClinicKey", "clinic key", key)
	case p.enabled(old):
		return e, store.Refused("ActivateClinicKey", model.ErrState, "the integration is already active")
	}
	return p.activate(w, old), nil
}

// UseKey checks the clinic key of a request and returns a rejection or "". The first request
// with a valid key activates the integration. It is the only API call that emits an event.
func (p Clinics) UseKey(key, clinicID string) (refusal string) {
	p.Store.RLock()
	refusal, active := p.check(p.Store.World.IntegrationByKey(key), clinicID)
	p.Store.RUnlock()
	if refusal != "" || active {
		return refusal
	}
	p.Store.Lock()
	defer p.Store.Unlock()
	found := p.Store.World.IntegrationByKey(key)
	if refusal, active = p.check(found, clinicID); refusal == "" && !active {
		p.activate(p.Store.World, found)
	}
	return refusal
}

// check returns the rejection of a request with an integration's key. If there is none, active
// reports whether the integration is active.
func (p Clinics) check(found *store.Integration, clinicID string) (refusal string, active bool) {
	switch {
	case found == nil || found.ClinicID != clinicID:
		return "The clinic key is invalid", false
	case found.Revoked:
		return "The clinic key was revoked", false
	}
	return "", p.enabled(found)
}

// activate makes an integration active. The caller holds the world's lock.
func (p Clinics) activate(w *store.World, old *store.Integration) model.Event {
	changed := *old
	changed.Revoked = false
	if store.ActivatedAt(old, p.Behaviors.Get()).IsZero() {
		changed.Activated = p.Clock.Now()
	}
	table.Put(&w.Integrations, changed.ID, &changed)
	return p.emit(model.EventClinicKeyActivated, changed.ClinicID, changed.ID, view.ClinicKey(&changed))
}

// Practitioners lists the practitioners of all clinics.
type Practitioners struct{ *actions }

func (p Practitioners) All() []model.Practitioner {
	return all(p.actions, func(w *store.World) table.Table[*model.Practitioner] { return w.Practitioners })
}

func (p Practitioners) Get(id string) (model.Practitioner, bool) {
	return find(p.actions, func(w *store.World) table.Table[*model.Practitioner] { return w.Practitioners }, id)
}
