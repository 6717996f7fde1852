package people

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// RevokeClinicKey lets the clinic end the integration that has the key:
// clinic_key.revoked, the last event it is sent; what it was still to be sent is not
// attempted any more. Requests with the key are refused from then on; bearer tokens
// without it stay good, an assumption.
func (p *People) RevokeClinicKey(key string) (e model.Event, err error) {
	err = p.act(func(w *store.World) error {
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
		w.Integrations.Put(changed.ID, &changed)
		p.Sender.Revoke(changed.ID)
		return nil
	})
	return e, err
}

// ReactivateClinicKey lets the clinic take a revoked integration back. That this
// makes clinic_key.activated at once, and not with the next request, is an
// assumption; so is that deliveries which the revocation ended are not resumed.
func (p *People) ReactivateClinicKey(key string) (e model.Event, err error) {
	err = p.act(func(w *store.World) error {
		old := w.IntegrationByKey(key)
		switch {
		case old == nil:
			return model.Unknown("ReactivateClinicKey", "integration's key", key)
		case !old.Revoked:
			return model.Refused("ReactivateClinicKey", model.ErrState, "the key is not revoked")
		}
		changed := *old
		changed.Revoked = false
		if changed.Activated.IsZero() {
			changed.Activated = p.Clock.Now()
		}
		w.Integrations.Put(changed.ID, &changed)
		e = p.emit(model.ClinicKeyActivated, changed.ClinicID, changed.ID, view.ClinicKey(&changed))
		return nil
	})
	return e, err
}
