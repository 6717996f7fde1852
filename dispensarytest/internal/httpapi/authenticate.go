package httpapi

import (
	"net/http"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// authenticate checks the bearer token, the clinic key if one is sent, and the
// operation's scope.
func (c *call) authenticate() error {
	scheme, value, _ := strings.Cut(c.request.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || value == "" {
		return noToken()
	}
	token, refusal := c.api.Tokens.Check(value, c.now)
	if token != nil {
		c.record.TokenID, c.record.UserID = token.ID, token.Grant.User.ID
	}
	if refusal != "" {
		return unauthorized(refusal)
	}
	c.token = token
	if err := c.checkClinicKey(); err != nil {
		return err
	}
	if c.op.Scope == "" {
		return nil
	}
	c.record.Scope = model.ScopeDecision{Required: c.op.Needs, Granted: token.Has(c.op.Scope)}
	if !c.record.Scope.Granted {
		return missingScope(c.op.Scope)
	}
	return nil
}

// checkClinicKey needs the header only where a reading does, and checks it
// wherever it is sent.
func (c *call) checkClinicKey() error {
	key := c.request.Header.Get("X-SVC-Clinic-Key")
	needed := c.behaviors.KeyNeeded == behavior.KeyAlways || c.behaviors.KeyNeeded == behavior.KeyForClinic && c.op.ID == "clinic.get"
	switch {
	case key != "":
		if refusal := c.api.Clinics.UseKey(key, c.token.ClinicID); refusal != "" {
			return problemOf(http.StatusUnauthorized, refusal)
		}
	case needed:
		return problemOf(http.StatusUnauthorized, "The clinic key is missing")
	}
	return nil
}
