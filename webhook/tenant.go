package webhook

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/safecall"
)

// TenantConfig configures a [Tenant]. Environment, Secrets and Challenge are required.
type TenantConfig struct {
	// Name is the name in logs and observations. It may be empty.
	Name string

	// Environment, Secrets and Challenge are as in [HandlerConfig].
	Environment api.Environment
	Secrets     []api.Secret
	Challenge   api.Secret

	// Inbox stores the tenant's events. Nil means [HandlerConfig].Inbox. Two applications in
	// one environment need an inbox each, because the platform may send both an event with
	// the same ID, and one inbox would report the second as a duplicate.
	Inbox Inbox
}

// Tenant is one application in one environment, for a [Handler] of several. Create it once: it
// prepares the keys. It is safe for concurrent use.
type Tenant struct {
	config   TenantConfig
	verifier *Verifier
	answer   api.Secret // to an acknowledged event: it contains the challenge
}

// NewTenant returns a tenant. It fails with an [*api.ArgumentError] for each missing field, and if
// the challenge token is one of the secrets.
func NewTenant(c TenantConfig) (*Tenant, error) {
	return newTenant("TenantConfig", c)
}

// newTenant names the fields of the given type in its errors.
func newTenant(config string, c TenantConfig) (*Tenant, error) {
	var problems []error
	if err := c.Environment.Validate(); err != nil {
		problems = append(problems, argumentError(config+".Environment", "is invalid: "+err.Error()))
	}
	if problem := problemOf(c.Challenge); problem != "" {
		problems = append(problems, argumentError(config+".Challenge", problem))
	}
	for i, secret := range c.Secrets {
		if secret == c.Challenge && !secret.IsZero() {
			problems = append(problems, argumentError(fmt.Sprintf("%s.Secrets[%d]", config, i),
				"equals Challenge: the dashboard shows a secret key and a challenge token, which differ"))
		}
	}
	verifier, err := newVerifier(config, VerifierConfig{Secrets: c.Secrets})
	if err := errors.Join(append(problems, err)...); err != nil {
		return nil, err
	}
	answer, err := json.Marshal(map[string]string{"challenge": c.Challenge.Reveal()})
	if err != nil {
		return nil, err
	}
	return &Tenant{config: c, verifier: verifier, answer: api.NewSecret(string(answer))}, nil
}

// Format prints name and environment only: the tenant holds secrets.
func (t *Tenant) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "webhook.Tenant("+t.config.Name+" "+t.config.Environment.String()+")")
}

// newUnknownTenant returns a tenant with a random secret. A request for an unknown tenant takes as
// long as a forged one for a known tenant, so the time does not reveal tenants.
func newUnknownTenant() (*Tenant, error) {
	verifier, err := NewVerifier(VerifierConfig{Secrets: []api.Secret{api.NewSecret(rand.Text())}})
	return &Tenant{verifier: verifier}, err
}

// tenantOf returns the tenant of a request, which is never nil without an error.
func (h *Handler) tenantOf(r *http.Request) (*Tenant, error) {
	if h.config.Tenant == nil {
		return h.own, nil
	}
	t, err := safecall.Value(func() (*Tenant, error) { return h.config.Tenant(r) })
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrTenant, err)
	case t == nil:
		return h.unknown, nil
	}
	return t, nil
}

// tenants returns the only tenant, or nil if c.Tenant is set.
func (c HandlerConfig) tenants() (own *Tenant, err error) {
	single := c.Environment != "" || len(c.Secrets) > 0 || !c.Challenge.IsZero()
	switch {
	case c.Tenant != nil && single:
		return nil, argumentError("HandlerConfig.Tenant", "is given together with Environment, Secrets or Challenge: a handler serves one tenant or asks which")
	case c.Tenant != nil:
		return nil, nil
	}
	return newTenant("HandlerConfig", TenantConfig{Environment: c.Environment, Secrets: c.Secrets, Challenge: c.Challenge})
}
