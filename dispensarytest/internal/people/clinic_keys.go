package people

import (
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// ActivatedAt returns the time of the first request with an integration's key, or zero.
func (p *People) ActivatedAt(i *model.Integration) time.Time {
	if i.Activated.IsZero() && p.Behaviors.Get().ActiveFromStart {
		return store.Epoch
	}
	return i.Activated
}

// enabled reports whether an integration is sent events.
func (p *People) enabled(i *model.Integration) bool {
	return !i.Revoked && !p.ActivatedAt(i).IsZero()
}

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

// ActivateClinicKey activates the integration of key and emits clinic_key.activated, as
// the first request with the key does. It also reconnects a revoked integration.
// Assumption: that event comes at once, not with the next request, and deliveries that the
// revocation stopped do not resume.
func (p *People) ActivateClinicKey(key string) (e model.Event, err error) {
	err = p.act(func(w *store.World) error {
		old := w.IntegrationByKey(key)
		switch {
		case old == nil:
			return model.Unknown("ActivateClinicKey", "integration's key", key)
		case !old.Revoked && !p.ActivatedAt(old).IsZero():
			return model.Refused("ActivateClinicKey", model.ErrState, "the integration is active already")
		}
		changed := *old
		changed.Revoked = false
		if p.ActivatedAt(old).IsZero() {
			changed.Activated = p.Clock.Now()
		}
		w.Integrations.Put(changed.ID, &changed)
		e = p.emit(model.ClinicKeyActivated, changed.ClinicID, changed.ID, view.ClinicKey(&changed))
		return nil
	})
	return e, err
}
