package accounts

import (
	"context"
	"errors"
	"sync"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
)

// AnyUser returns a client that calls as any of the connected users of an environment. Use it only
// for what belongs to no clinic: the catalog and the events of products. It is cheap, accesses
// neither the store nor the platform, and can be created before any user connects:
//
//	client, err := users.AnyUser(dispensary.USProduction, accounts.ClinicOptions{})
//	products, err := catalogsync.New(catalogsync.Config{Catalog: client.Catalog, Events: client.Events})
//
// If the user has to authorize again, the client switches to the next user, even during a call.
// While no user is left, calls fail with a [*ClinicError]. The client sends no key of
// [Config].ClinicKey, because its users belong to several clinics.
//
// An error is an [*api.ArgumentError] for an environment without an application.
func (a *Accounts) AnyUser(environment dispensary.Environment, options ClinicOptions) (*dispensary.Client, error) {
	app, err := a.application(environment)
	if err != nil {
		return nil, err
	}
	return app.client.With(
		dispensary.WithTokenSource(&anySource{start: func() *clinicSource { return a.newSource(app, "", options.Scopes) }}),
		dispensary.WithLimiter(options.Limiter),
	)
}

// anySource is the token source of [Accounts.AnyUser]. If no user is left, it lists the users
// again, because others may have connected.
type anySource struct {
	start func() *clinicSource

	mu      sync.Mutex
	current *clinicSource // nil before the first call and after an error
}

// Token implements [api.TokenSource].
func (s *anySource) Token(ctx context.Context) (api.AccessToken, error) {
	return s.with(func(users *clinicSource) (api.AccessToken, error) { return users.Token(ctx) })
}

// Refresh implements [api.TokenRefresher]. It may return a token of another user.
func (s *anySource) Refresh(ctx context.Context, rejected api.AccessToken) (api.AccessToken, error) {
	return s.with(func(users *clinicSource) (api.AccessToken, error) { return users.Refresh(ctx, rejected) })
}

func (s *anySource) with(call func(*clinicSource) (api.AccessToken, error)) (api.AccessToken, error) {
	for {
		users, isNew := s.users()
		token, err := call(users)
		if err == nil {
			return token, nil
		}
		s.discard(users)
		if isNew || !errors.As(err, new(*ClinicError)) {
			return token, err
		}
	}
}

// users returns the current source, or starts a new one.
func (s *anySource) users() (users *clinicSource, isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	isNew = s.current == nil
	if isNew {
		s.current = s.start()
	}
	return s.current, isNew
}

func (s *anySource) discard(users *clinicSource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == users {
		s.current = nil
	}
}
