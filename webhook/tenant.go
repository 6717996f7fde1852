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
	// one environment need separate inboxes: the platform may send an event with the same ID to
	// both, and a shared inbox would report the second as a duplicate.
	Inbox Inbox
}

// Tenant is one application in one environment, for a [Handler] that serves several at one path.
// [HandlerConfig].Tenant returns the tenant of a request. Alternatively, mount one handler for each
// application or environment, at different paths.
//
// Environments can share an inbox, because [Key] contains the environment. Two applications in one
// environment need separate inboxes.
//
// Create each tenant once, because it prepares the keys. It is safe for concurrent use.
type Tenant struct {
	config   TenantConfig
	verifier *Verifier
	answer   api.Secret // the response to an acknowledged event, with the challenge
}

// NewTenant returns a tenant. It fails with an [*api.ArgumentError] for each missing field, and if
// the challenge token is one of the secrets.
func NewTenant(c TenantConfig) (*Tenant, error) {
	return newTenant("TenantConfig", c)
}

// newTenant implements [NewTenant]. Its errors name the fields of config.
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
				"equals Challenge: the secret key and the challenge token are two different values in the dashboard"))
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

// Format prints only name and environment, because the tenant contains secrets.
func (t *Tenant) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "webhook.Tenant("+t.config.Name+" "+t.config.Environment.String()+")")
}

// newUnknownTenant returns a tenant with a random secret. With it, a request for an unknown tenant
// takes as long as a forged request for a known tenant, so the time does not reveal tenants.
func newUnknownTenant() (*Tenant, error) {
	verifier, err := NewVerifier(VerifierConfig{Secrets: []api.Secret{api.NewSecret(rand.Text())}})
	return &Tenant{verifier: verifier}, err
}

// tenantOf returns the tenant of a request. It returns h.unknown instead of a nil tenant.
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
		return nil, argumentError("HandlerConfig.Tenant", "cannot be combined with Environment, Secrets or Challenge: set those for a single tenant only")
	case c.Tenant != nil:
		return nil, nil
	}
	return newTenant("HandlerConfig", TenantConfig{Environment: c.Environment, Secrets: c.Secrets, Challenge: c.Challenge})
}
