package httpapi

import (
	"net/http"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// authenticate checks the bearer token, the clinic key if one is sent, and the
// operation's scope.
func (c *Call) authenticate() error {
	scheme, value, _ := strings.Cut(c.R.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || value == "" {
		return noToken()
	}
	token, refusal := c.API.Tokens.Check(value, c.now)
	if token != nil {
		c.Record.TokenID, c.Record.UserID = token.ID, token.Grant.User.ID
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
	c.Record.Scope = model.ScopeDecision{Required: c.op.Needs, Granted: token.Has(c.op.Scope)}
	if !c.Record.Scope.Granted {
		return missingScope(c.op.Scope)
	}
	return nil
}

// checkClinicKey needs the header only where a reading does, and checks it
// wherever it is sent.
func (c *Call) checkClinicKey() error {
	key := c.R.Header.Get("X-SVC-Clinic-Key")
	needed := c.Reads.KeyNeeded == behavior.KeyAlways || c.Reads.KeyNeeded == behavior.KeyForClinic && c.op.ID == "clinic.get"
	switch {
	case key != "":
		if refusal := c.API.People.UseClinicKey(key, c.token.ClinicID); refusal != "" {
			return problemOf(http.StatusUnauthorized, refusal)
		}
	case needed:
		return problemOf(http.StatusUnauthorized, "The clinic key is missing")
	}
	return nil
}
