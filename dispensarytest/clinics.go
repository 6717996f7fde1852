package dispensarytest

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Clinics are the clinics of the platform, their practitioners, and the access they give and take. Actions make events,
// as on the real platform, and return them; see [Server].
type Clinics struct{ actions }

// All returns all clinics.
func (p Clinics) All() []model.Clinic {
	return all(p.server, func(w *store.World) table.Table[*model.Clinic] { return w.Clinics })
}

// Practitioners returns all practitioners.
func (p Clinics) Practitioners() []model.Practitioner {
	return all(p.server, func(w *store.World) table.Table[*model.Practitioner] { return w.Practitioners })
}

// RevokeKey lets the clinic end the integration that has the key:
// clinic_key.revoked, the last event it is sent; what it was still to be sent is not
// attempted any more. Requests with the key are refused from then on; bearer tokens
// without it stay good, an assumption.
func (p Clinics) RevokeKey(key string) (e model.Event, err error) {
	err = transact(p.server, func(w *store.World) error {
		old := w.IntegrationByKey(key)
		switch {
		case old == nil:
			return model.Unknown("RevokeClinicKey", "integration's key", key)
		case old.Revoked:
			return model.Refused("RevokeClinicKey", model.ErrState, "the key is revoked already")
		}
		e = p.emit(model.ClinicKeyRevoked, old.ClinicID, old.ID, view.ClinicKey(old))
		changed := *old
		changed.Revoked = true
		table.Put(&w.Integrations, changed.ID, &changed)
		p.server.sender.Revoke(changed.ID)
		return nil
	})
	return e, err
}

// ActivateKey activates the integration of key and makes clinic_key.activated, as the
// first request with the key does. It also reconnects a revoked integration. It fails with
// [model.ErrState] if the integration is active.
//
// Assumption: a reconnected integration is active at once, not with the next request, and
// deliveries that the revocation stopped do not resume.
func (p Clinics) ActivateKey(key string) (e model.Event, err error) {
	err = transact(p.server, func(w *store.World) error {
		old := w.IntegrationByKey(key)
		switch {
		case old == nil:
			return model.Unknown("ActivateClinicKey", "integration's key", key)
		case !old.Revoked && !p.activatedAt(old).IsZero():
			return model.Refused("ActivateClinicKey", model.ErrState, "the integration is active already")
		}
		changed := *old
		changed.Revoked = false
		if p.activatedAt(old).IsZero() {
			changed.Activated = p.server.clock.Now()
		}
		table.Put(&w.Integrations, changed.ID, &changed)
		e = p.emit(model.ClinicKeyActivated, changed.ClinicID, changed.ID, view.ClinicKey(&changed))
		return nil
	})
	return e, err
}
