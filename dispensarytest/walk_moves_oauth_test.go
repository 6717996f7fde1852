package dispensarytest

import (
	"fmt"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func oauthMoves() []move {
	return []move{
		{"issue a token", 6, issueTokenMove},
		{"authorize", 2, func(m *walkModel, _ step) prediction {
			m.codes = append(m.codes, &modelCode{scopes: slices.Clone(m.appScopes), expires: m.now.Add(m.codeLife)})
			return act("a user authorizes", 200, nil, func(d *driver) (any, error) {
				code := d.fake.tokens.NewCode(d.fake.Users()[0])
				return map[string]string{"code": code}, nil
			}).bind("code", ref{"code", len(m.codes) - 1})
		}},
		{"redeem a code", 3, func(m *walkModel, s step) prediction {
			at := choose(len(m.codes), s.a)
			p := prediction{request: tokenRequest(map[string]any{"grant_type": "authorization_code", "code": ref{"code", at}})}
			if at < 0 || m.codes[at].gone || !m.now.Before(m.codes[at].expires) {
				return p.answer(400, nil)
			}
			m.codes[at].gone = m.codesWorkOnce
			g := &modelGrant{scopes: m.codes[at].scopes}
			return p.answer(200, map[string]any{"oauth.expires_in": 7200}).bindPair(m.issue(g, -1), m.issueRefresh(g))
		}},
		{"refresh", 4, refreshMove},
		{"revoke", 1, func(m *walkModel, s step) prediction {
			token, refresh := choose(len(m.tokens), s.a), choose(len(m.refreshes), s.a)
			p := prediction{request: tokenRequest(map[string]any{"token": ref{"token", token}})}
			if s.b%2 == 0 {
				p.request.body["token"] = ref{"refresh", refresh}
			}
			p.request.path[0] = "/oauth/revoke"
			switch {
			case s.b%2 == 0 && refresh >= 0 && !m.refreshes[refresh].ended:
				m.refreshes[refresh].grant.revoked = true
			case s.b%2 != 0 && token >= 0 && m.revokingEndsRefresh:
				m.tokens[token].grant.revoked = true
			case s.b%2 != 0 && token >= 0:
				m.tokens[token].expires = m.now
			}
			return p.answer(200, nil)
		}},
		{"extend the scopes", 1, func(m *walkModel, s step) prediction {
			const more = "patients:treatment_plan_history"
			if !slices.Contains(m.appScopes, more) && s.a%4 == 0 {
				m.appScopes = append(m.appScopes, more)
				if m.extendingEndsTokens {
					m.endConsents()
				}
				return act("the application asks for one more scope", 200, nil, func(d *driver) (any, error) { return nil, d.fake.Tokens.ExtendScopes(more) })
			}
			return act("the application asks for a scope it has", 200, nil, func(d *driver) (any, error) { return nil, d.fake.Tokens.ExtendScopes("clinic:read") })
		}},
		{"expire a token", 1, func(m *walkModel, s step) prediction {
			at := choose(len(m.tokens), s.a)
			status := 200
			if at < 0 {
				status = 422
			} else {
				m.tokens[at].expires = m.now
			}
			return act(fmt.Sprintf("%v expires early", ref{"token", at}), status, nil, func(d *driver) (any, error) {
				return nil, d.fake.Tokens.Expire(d.id(ref{"token", at}))
			})
		}},
		{"let time pass", 6, func(m *walkModel, s step) prediction {
			passes := []time.Duration{
				time.Second, time.Minute, 5 * time.Minute, 10*time.Minute - time.Second, 10 * time.Minute, 11 * time.Minute,
				time.Hour, 2*time.Hour - time.Second, 2 * time.Hour, 3 * time.Hour, 24 * time.Hour, 24 * time.Hour, 10 * 24 * time.Hour, 30 * 24 * time.Hour,
			}
			by := passes[s.a%len(passes)]
			if s.b%3 != 0 {
				by = passes[s.a%4]
			}
			m.now = m.now.Add(by)
			return act(fmt.Sprintf("%s pass", by), 200, nil, func(d *driver) (any, error) {
				d.fake.Clock().Advance(by)
				return nil, nil
			})
		}},
	}
}

var credentials = []string{"client_id", "client_secret", "redirect_uri"}

// tokenRequest is a call to the token endpoint, with the application's
// credentials.
func tokenRequest(body map[string]any) request {
	for _, name := range credentials {
		body[name] = ref{name, 0}
	}
	return request{method: "POST", path: []any{"/oauth/token"}, body: body, open: true}
}

func (p prediction) bindPair(access, refresh ref) prediction {
	p.binds = map[string]ref{"oauth.access_token": access, "oauth.refresh_token": refresh}
	return p
}

func issueTokenMove(m *walkModel, s step) prediction {
	var scopes []string
	switch s.a % 16 {
	case 0:
		scopes = []string{"catalog:read"}
	case 1:
		scopes = []string{"clinic:write", "patients:read"}
	case 2:
		scopes = []string{"patients"}
	case 3:
		scopes = []string{"clinic"}
	case 4, 5:
	default:
		scopes = []string{"catalog:read", "clinic", "patients"}
	}
	g := &modelGrant{scopes: scopes}
	text := fmt.Sprintf("a token is issued with the scopes %q", scopes)
	if scopes == nil {
		g.scopes, text = slices.Clone(m.appScopes), "a token is issued with the application's scopes"
	}
	p := act(text, 200, nil, func(d *driver) (any, error) {
		return d.fake.Tokens.Issue(model.User{}, scopes...), nil
	})
	p.binds = map[string]ref{"AccessToken": m.issue(g, -1), "RefreshToken": m.issueRefresh(g)}
	return p
}

func refreshMove(m *walkModel, s step) prediction {
	at := choose(len(m.refreshes), s.a)
	p := prediction{request: tokenRequest(map[string]any{"grant_type": "refresh_token", "refresh_token": ref{"refresh", at}})}
	if at < 0 || m.refreshes[at].ended || !m.refreshes[at].grant.live() {
		return p.answer(400, nil)
	}
	g := m.refreshes[at].grant
	switch m.rotation {
	case RefreshRotationGrace:
		return p.answer(200, nil).bindPair(m.issue(g, at), m.issueRefresh(g))
	case RefreshRotationImmediate:
		m.refreshes[at].ended = true
		return p.answer(200, nil).bindPair(m.issue(g, -1), m.issueRefresh(g))
	}
	return p.answer(200, map[string]any{"oauth.refresh_token": ref{"refresh", at}}).bind("oauth.access_token", m.issue(g, -1))
}
