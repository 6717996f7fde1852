package probe

import (
	"net/http"
)

// tokenPoints returns the points about the token endpoint. They come last, because they revoke
// the authorizations of the run.
func tokenPoints() []point {
	return []point{
		{"unknown-token-revocation", []string{"ok", "rejected"}, func(s *session) Finding {
			return decide(s.revoke(s.marker), "ok", "rejected")
		}},
		{"expires-in", []string{"number", "string"}, observeExpiresIn},
		{"access-token-after-refresh", []string{"kept", "ended"}, observeAccessTokenAfterRefresh},
		{"refresh-rotation", []string{"none", "grace", "immediate"}, observeRefreshRotation},
		{"refresh-token-revocation", []string{"revoked", "unknown"}, observeRefreshTokenRevocation},
		{"revocation-reach", []string{"consent", "pair"}, observeRevocationReach},
	}
}

const noRefreshToken = "needs a refresh token: use --user with a user connected by dispensary login"

// asClient adds the client credentials that the token endpoint requires.
func (s *session) asClient(body object) object {
	body["client_id"], body["client_secret"] = s.config.Application.ClientID, s.config.Application.ClientSecret.Reveal()
	return body
}

func (s *session) revoke(token string) platformResponse {
	return s.send("", http.MethodPost, "/oauth/revoke", s.asClient(object{"token": token}))
}

// renew uses a refresh token. On success it stores the new tokens in c.
func (s *session) renew(c *consent, refresh string) platformResponse {
	a := s.send("", http.MethodPost, "/oauth/token", s.asClient(object{
		"grant_type": "refresh_token", "redirect_uri": s.config.Application.RedirectURL, "refresh_token": refresh,
	}))
	if access := a.text("oauth", "access_token"); a.ok() && access != "" {
		c.access = access
		if next := a.text("oauth", "refresh_token"); next != "" {
			c.refresh = next
		}
	}
	return a
}

// firstRenewal refreshes a consent once and returns the same response on later calls.
func (s *session) firstRenewal(c *consent) platformResponse {
	if c.renewed == nil {
		a := s.renew(c, c.refresh)
		c.renewed = &a
	}
	return *c.renewed
}

// works makes a small request with an access token.
func (s *session) works(token string) platformResponse { return s.getWith(token, "/catalog/brands") }

// renewed refreshes the first consent. It returns a finding if that is not possible.
func (s *session) renewed() (platformResponse, *Finding) {
	if s.main.refresh == "" {
		f := hidden(noRefreshToken)
		return platformResponse{}, &f
	}
	a := s.firstRenewal(&s.main)
	_, lack := lacking(a, a.text("oauth", "access_token"), "could not refresh the token")
	return a, lack
}

func observeExpiresIn(s *session) Finding {
	a, lack := s.renewed()
	if lack != nil {
		return *lack
	}
	switch found, _ := a.at("oauth", "expires_in"); found.(type) {
	case float64:
		return seen("number", a)
	case string:
		return seen("string", a)
	}
	return ambiguous("expires_in is neither a number nor a string", a)
}

func observeAccessTokenAfterRefresh(s *session) Finding {
	renewed, lack := s.renewed()
	if lack != nil {
		return *lack
	}
	a := s.works(s.main.original)
	switch {
	case a.ok():
		return seen("kept", renewed, a)
	case a.status == http.StatusUnauthorized:
		return seen("ended", renewed, a)
	}
	return unexpected(a)
}

// observeRefreshRotation uses the first refresh token again, before and after the first use of the
// new access token.
func observeRefreshRotation(s *session) Finding {
	first := s.config.Token.RefreshToken.Reveal()
	renewed, lack := s.renewed()
	if lack != nil {
		return *lack
	}
	if next := renewed.text("oauth", "refresh_token"); next == "" || next == first {
		return seen("none", renewed)
	}
	again := s.renew(&s.main, first)
	if endsGrant(again) {
		return seen("immediate", renewed, again)
	}
	if !again.ok() {
		return unexpected(again)
	}
	used := s.works(s.main.access)
	late := s.renew(&s.main, first)
	switch {
	case used.ok() && endsGrant(late):
		return seen("grace", renewed, again, used, late)
	case used.ok() && late.ok():
		return ambiguous("the old refresh token stays valid after the use of the new access token", renewed, again, used, late)
	}
	return unexpected(late)
}

// endsGrant reports whether the status is that of an invalid refresh token.
func endsGrant(a platformResponse) bool {
	return a.status == http.StatusBadRequest || a.status == http.StatusUnauthorized
}

func observeRefreshTokenRevocation(s *session) Finding {
	if _, lack := s.renewed(); lack != nil {
		return *lack
	}
	before := s.works(s.main.access)
	if !before.ok() {
		s.main.ended = true
		return ambiguous("the authorization was no longer valid", before)
	}
	revoked := s.revoke(s.main.refresh)
	after := s.renew(&s.main, s.main.refresh)
	switch {
	case endsGrant(after):
		s.main.ended = true
		return seen("revoked", revoked, after)
	case after.ok():
		return seen("unknown", revoked, after)
	}
	return unexpected(after)
}

// observeRevocationReach revokes the newest access token of an authorization, and then uses the
// access token from before the refresh.
func observeRevocationReach(s *session) Finding {
	c := &s.spare
	if c.refresh == "" {
		if c = &s.main; c.refresh == "" {
			return hidden(noRefreshToken)
		}
		if c.ended {
			return hidden("needs a second authorization: add --spare")
		}
	}
	renewed := s.firstRenewal(c)
	if !renewed.ok() {
		return unexpected(renewed)
	}
	before := s.works(c.original)
	if before.status == http.StatusUnauthorized {
		return hidden("a refresh invalidates the previous access token, so there is no second one to test", before)
	}
	revoked := s.revoke(c.access)
	if !before.ok() || !revoked.ok() {
		return ambiguous("could not use or revoke the access token", before, revoked)
	}
	after := s.works(c.original)
	switch {
	case after.ok():
		return seen("pair", revoked, after)
	case after.status == http.StatusUnauthorized:
		return seen("consent", revoked, after)
	}
	return unexpected(after)
}
