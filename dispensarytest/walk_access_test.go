package dispensarytest

import (
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func (w *walk) readClinic() {
	a, allowed := w.call("GET", "clinic:read", "/clinic", nil)
	if !allowed {
		return
	}
	clinic := a.object(200, "clinic")
	require.EqualValues(w.t, len(w.patients), clinic["patient_count"])
	require.Equal(w.t, w.activated, clinic["integration_activated_at"] != nil)
}

func (w *walk) turnKey() {
	if w.odds(2) {
		w.did("revoke the clinic key")
		e, err := w.fake.Clinics.RevokeKey(w.fake.ClinicKey())
		if w.revoked {
			require.Error(w.t, err)
			return
		}
		w.happened("clinic_key.revoked", "integration", e, err)
		w.revoked = true
		return
	}
	w.did("activate the clinic key")
	e, err := w.fake.Clinics.ActivateKey(w.fake.ClinicKey())
	if w.activated && !w.revoked {
		require.ErrorIs(w.t, err, model.ErrState)
		return
	}
	w.happened("clinic_key.activated", "integration", e, err)
	w.activated, w.revoked = true, false
}

// pair adds an access token and a new refresh token.
func (w *walk) pair(g *walkGrant, access, refresh any, supersedes *walkRefresh) {
	w.tokens = append(w.tokens, &walkToken{value: access.(string), grant: g, expires: w.now.Add(2 * time.Hour), supersedes: supersedes})
	w.refreshes = append(w.refreshes, &walkRefresh{value: refresh.(string), grant: g})
}

func (w *walk) issue() {
	scopes := [][]string{{"catalog:read"}, {"clinic:write", "patients:read"}, {"patients"}, {"clinic"}, nil, {"catalog:read", "clinic", "patients"}}[min(w.dice.IntN(16), 5)]
	w.did("issue a token for %q", scopes)
	token := w.fake.Tokens.Issue(model.User{}, scopes...)
	if scopes == nil {
		scopes = slices.Clone(w.scopes)
	}
	w.pair(&walkGrant{scopes: scopes}, token.AccessToken, token.RefreshToken, nil)
}

func (w *walk) authorize() {
	w.did("authorize")
	w.codes = append(w.codes, &walkCode{value: w.fake.tokens.NewCode(w.fake.Users()[0]), scopes: slices.Clone(w.scopes), expires: w.now.Add(10 * time.Minute)})
}

func (w *walk) redeem() {
	c := one(w, w.codes)
	a := w.exchange(idOf(c, codeValue))
	w.did("redeem a code → %d", a.status)
	if c == nil || c.gone || !w.now.Before(c.expires) {
		a.ok(400)
		return
	}
	c.gone = true
	w.pair(&walkGrant{scopes: c.scopes}, a.ok(200, "oauth", "access_token"), a.ok(200, "oauth", "refresh_token"), nil)
}

func (w *walk) refresh() {
	r := one(w, w.refreshes)
	a := w.renew(idOf(r, refreshValue))
	w.did("refresh → %d", a.status)
	if r == nil || r.ended || r.grant.ended {
		a.ok(400)
		return
	}
	access, refresh := a.ok(200, "oauth", "access_token"), a.ok(200, "oauth", "refresh_token")
	switch w.rotation {
	case behavior.RefreshRotationGrace:
		w.pair(r.grant, access, refresh, r)
	case behavior.RefreshRotationImmediate:
		r.ended = true
		w.pair(r.grant, access, refresh, nil)
	default:
		require.Equal(w.t, r.value, refresh)
		w.tokens = append(w.tokens, &walkToken{value: access.(string), grant: r.grant, expires: w.now.Add(2 * time.Hour)})
	}
}

func (w *walk) revoke() {
	token, refresh := one(w, w.tokens), one(w, w.refreshes)
	value := idOf(token, tokenValue)
	if byRefresh := w.odds(2); byRefresh {
		token, value = nil, idOf(refresh, refreshValue)
		if refresh != nil && !refresh.ended {
			refresh.grant.ended = true
		}
	}
	if token != nil {
		token.grant.ended = true
	}
	w.did("revoke a token")
	w.post("/oauth/revoke", w.credentials(map[string]any{"token": value})).ok(200)
}

// extend ends all consents and codes, once.
func (w *walk) extend() {
	scope := "clinic:read"
	if w.odds(4) {
		scope = "patients:treatment_plan_history"
	}
	w.did("extend the scopes by %s", scope)
	require.NoError(w.t, w.fake.Tokens.ExtendScopes(scope))
	if slices.Contains(w.scopes, scope) {
		return
	}
	w.scopes = append(w.scopes, scope)
	for _, t := range w.tokens {
		t.grant.ended = true
	}
	for _, r := range w.refreshes {
		r.grant.ended = true
	}
	for _, c := range w.codes {
		c.gone = true
	}
}

func (w *walk) expire() {
	token := one(w, w.tokens)
	w.did("expire a token")
	err := w.fake.Tokens.Expire(idOf(token, tokenValue))
	if token == nil {
		require.Error(w.t, err)
		return
	}
	token.expires = w.now
}

var eventGroups = []struct{ path, prefix, scope string }{
	{"clinic_keys", "clinic_key.", "clinic:read"}, {"orders", "order.", "patients:order_history"},
	{"patients", "patient.", "patients:read"}, {"treatment_plans", "treatment_plan.", "patients:treatment_plan_history"},
}

func (w *walk) keeps(e *walkEvent) bool { return w.now.Sub(e.at) <= store.Retention }

func (w *walk) listEvents() {
	group, day, query := eventGroups[w.dice.IntN(len(eventGroups))], w.now.AddDate(0, 0, -w.dice.IntN(3)).Format(time.DateOnly), ""
	if w.odds(2) {
		query = "?created_at=" + day
	}
	a, allowed := w.call("GET", group.scope, "/events/"+group.path+query, nil)
	if !allowed {
		return
	}
	found := 0
	for _, e := range w.events {
		if strings.HasPrefix(e.kind, group.prefix) && w.keeps(e) && (query == "" || e.at.Format(time.DateOnly) == day) {
			found++
		}
	}
	require.EqualValues(w.t, found, a.ok(200, "meta", "total_count"))
}

func (w *walk) getEvent() {
	e := one(w, w.events)
	id := idOf(e, func(e *walkEvent) string {
		return w.fake.store.World.ID("event", uint64(slices.Index(w.events, e)+1))
	})
	a, allowed := w.call("GET", "", "/events/"+id, nil)
	switch {
	case !allowed:
	case e == nil || !w.keeps(e):
		a.ok(404)
	default:
		group := slices.IndexFunc(eventGroups, func(g struct{ path, prefix, scope string }) bool { return strings.HasPrefix(e.kind, g.prefix) })
		if !w.grant.has(eventGroups[group].scope) {
			a.ok(403)
			return
		}
		require.Equal(w.t, []any{e.kind, view.Time(e.at)}, []any{a.ok(200, "event", "type"), a.ok(200, "event", "created_at")})
	}
}
