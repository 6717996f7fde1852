package probe

import (
	"net/http"
)

// tokenPoints are about the token endpoint. They use up the authorizations of the run,
// which is why they are last.
func tokenPoints() []point {
	return []point{
		{"unknown-token-revocation", []string{"ok", "rejected"}, func(s *session) Finding {
			return decide(s.revoke(s.marker), "ok", "rejected")
		}},
		{"expires-in", []string{"number", "string"}, (*session).expiresIn},
		{"access-token-after-refresh", []string{"kept", "ended"}, (*session).accessTokenAfterRefresh},
		{"refresh-rotation", []string{"none", "grace", "immediate"}, (*session).refreshRotation},
		{"refresh-token-revocation", []string{"revoked", "unknown"}, (*session).refreshTokenRevocation},
		{"revocation-reach", []string{"consent", "pair"}, (*session).revocationReach},
	}
}

const noRefreshToken = "it takes a refresh token: call as a user who was connected with dispensary login"

// asClient adds what the token endpoint asks of every request.
func (s *session) asClient(body object) object {
	body["client_id"], body["client_secret"] = s.config.Application.ClientID, s.config.Application.ClientSecret.Reveal()
	return body
}

func (s *session) revoke(token string) answer {
	return s.send("", http.MethodPost, "/oauth/revoke", s.asClient(object{"token": token}))
}

// renew uses a refresh token; on success the consent has the new pair.
func (s *session) renew(c *consent, refresh string) answer {
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

// firstRenewal refreshes a consent, once.
func (s *session) firstRenewal(c *consent) answer {
	if c.renewed == nil {
		a := s.renew(c, c.refresh)
		c.renewed = &a
	}
	return *c.renewed
}

// works asks for something small with an access token.
func (s *session) works(token string) answer { return s.getWith(token, "/catalog/brands") }

// renewed refreshes the first consent, or says why that is not possible.
func (s *session) renewed() (answer, *Finding) {
	if s.main.refresh == "" {
		f := hidden(noRefreshToken)
		return answer{}, &f
	}
	a := s.firstRenewal(&s.main)
	_, lack := lacking(a, a.text("oauth", "access_token"), "the token could not be refreshed")
	return a, lack
}

func (s *session) expiresIn() Finding {
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

func (s *session) accessTokenAfterRefresh() Finding {
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

// refreshRotation uses the first refresh token again: before the new access token was
// used, and after that.
func (s *session) refreshRotation() Finding {
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
		return ambiguous("the old refresh token stays good after the new access token was used", renewed, again, used, late)
	}
	return unexpected(late)
}

// endsGrant is how a refresh token is refused that is not good any more.
func endsGrant(a answer) bool {
	return a.status == http.StatusBadRequest || a.status == http.StatusUnauthorized
}

func (s *session) refreshTokenRevocation() Finding {
	if _, lack := s.renewed(); lack != nil {
		return *lack
	}
	before := s.works(s.main.access)
	if !before.ok() {
		s.main.ended = true
		return ambiguous("the authorization ended before", before)
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

// revocationReach revokes the newest access token of an authorization, and asks with the
// one from before the refresh.
func (s *session) revocationReach() Finding {
	c := &s.spare
	if c.refresh == "" {
		if c = &s.main; c.refresh == "" {
			return hidden(noRefreshToken)
		}
		if c.ended {
			return hidden("it takes a second authorization, and --spare names none")
		}
	}
	renewed := s.firstRenewal(c)
	if !renewed.ok() {
		return unexpected(renewed)
	}
	before := s.works(c.original)
	if before.status == http.StatusUnauthorized {
		return hidden("a refresh ends the access token before it, so that none is left to look at", before)
	}
	revoked := s.revoke(c.access)
	if !before.ok() || !revoked.ok() {
		return ambiguous("the access token could not be used or not be revoked", before, revoked)
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
