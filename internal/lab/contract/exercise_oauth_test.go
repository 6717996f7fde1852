package contract_test

import (
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func credentials(s *fixture) map[string]any {
	app := s.fake.Application()
	return map[string]any{"client_id": app.ClientID, "client_secret": app.ClientSecret}
}

func refreshGrant(s *fixture) map[string]any {
	body := credentials(s)
	body["grant_type"], body["redirect_uri"] = "refresh_token", s.fake.Application().RedirectURI
	body["refresh_token"] = s.fake.Tokens.Issue(model.User{}).RefreshToken
	return body
}

func revocation(s *fixture) map[string]any {
	body := credentials(s)
	body["token"] = s.fake.Tokens.Issue(model.User{}).AccessToken
	return body
}

func sent(body any) func(*fixture, *request) { return func(_ *fixture, r *request) { r.body = body } }

var oauthExercises = map[string]exercise{
	"oauth.authorize": {
		request: func(s *fixture) request {
			app := s.fake.Application()
			return request{query: query("client_id", app.ClientID, "redirect_uri", app.RedirectURI, "response_type", "code", "state", "s t&te")}
		},
		refusals: []refusal{
			{"unknown client", 404, func(_ *fixture, r *request) { r.query.Set("client_id", "unknown") }},
			{"another address", 404, func(_ *fixture, r *request) { r.query.Set("redirect_uri", "https://example.org/") }},
			{"another response type", 303, func(_ *fixture, r *request) { r.query.Set("response_type", "token") }},
			{"malformed query", 400, func(_ *fixture, r *request) { r.query, r.rawQuery = nil, "state=%zz" }},
		},
	},
	"oauth.token": {
		request: having(refreshGrant),
		refusals: []refusal{
			{"unknown refresh token", 400, field("refresh_token", fixed("unknown"))},
			{"unknown code", 400, func(s *fixture, r *request) {
				field("grant_type", fixed("authorization_code"))(s, r)
				field("code", fixed("unknown"))(s, r)
			}},
			{"unknown grant type", 400, field("grant_type", fixed("password"))},
			{"missing grant type", 400, field("grant_type", fixed(""))},
			{"another address", 400, field("redirect_uri", fixed("https://example.org/"))},
			{"wrong secret", 401, field("client_secret", fixed("wrong"))},
			{"unknown client", 401, field("client_id", fixed("unknown"))},
			{"number instead of text", 400, field("client_id", fixed(7))},
			{"nothing", 400, sent(nil)},
			{"no JSON", 400, sent("grant_type=refresh_token")},
			{"no object", 400, sent("[]")},
			tooLarge,
		},
	},
	"oauth.revoke": {
		request: having(revocation),
		refusals: []refusal{
			{"missing token", 400, field("token", fixed(""))},
			{"wrong secret", 401, field("client_secret", fixed("wrong"))},
			{"nothing", 400, sent(nil)},
			{"no JSON", 400, sent("{")},
			tooLarge,
		},
	},
}
