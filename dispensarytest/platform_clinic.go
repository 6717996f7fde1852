package dispensarytest

// RevokeClinicKey lets the clinic end the integration that has the key:
// clinic_key.revoked, the last event it is sent; what it was still to be sent is not
// attempted any more. Requests with the key are refused from then on; bearer tokens
// without it stay good, an assumption.
func (p *Platform) RevokeClinicKey(key string) (e Event, err error) {
	err = p.act(func(w *world) error {
		old := w.integrationByKey(key)
		switch {
		case old == nil:
			return unknown("RevokeClinicKey", "integration's key", key)
		case old.revoked:
			return refused("RevokeClinicKey", ErrState, "the key is revoked already")
		}
		e = p.srv.emit(ClinicKeyRevoked, old.clinicID, old.id, viewClinicKey(old))
		changed := *old
		changed.revoked = true
		w.integrations.Put(changed.id, &changed)
		p.srv.sender.revoke(changed.id)
		return nil
	})
	return e, err
}

// ReactivateClinicKey lets the clinic take a revoked integration back. That this
// makes clinic_key.activated at once, and not with the next request, is an
// assumption; so is that deliveries which the revocation ended are not resumed.
func (p *Platform) ReactivateClinicKey(key string) (e Event, err error) {
	err = p.act(func(w *world) error {
		old := w.integrationByKey(key)
		switch {
		case old == nil:
			return unknown("ReactivateClinicKey", "integration's key", key)
		case !old.revoked:
			return refused("ReactivateClinicKey", ErrState, "the key is not revoked")
		}
		changed := *old
		changed.revoked = false
		if changed.activated.IsZero() {
			changed.activated = p.srv.clock.Now()
		}
		w.integrations.Put(changed.id, &changed)
		e = p.srv.emit(ClinicKeyActivated, changed.clinicID, changed.id, viewClinicKey(&changed))
		return nil
	})
	return e, err
}
