package dispensarytest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/environ"
)

func TestSiteIsSandboxOfRegion(t *testing.T) {
	t.Parallel()
	for _, want := range []api.Environment{api.USSandbox, api.CanadaSandbox} {
		for _, opt := range []Option{WithInMemory(), WithTLS(), WithTuning(Tuning{Addr: "127.0.0.1:0"})} {
			fake := New(t, WithEnvironment(want), opt)
			site := fake.Site()
			assert.Equal(t, want, site.Environment)
			assert.Equal(t, fake.Site().BaseURL, site.BaseURL)
			assert.Equal(t, fake.Site().AuthURL, site.AuthURL)
			require.NoError(t, site.Validate(), "the site is valid for a client")
			base, auth := environ.Variables(want)
			assert.Contains(t, fake.Variables(), base+"="+site.BaseURL)
			assert.Contains(t, fake.Variables(), auth+"="+site.AuthURL)
		}
	}
}

func TestClientAppliesOptions(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory())
	client := fake.Client(model.User{}, dispensary.WithClinicKey(dispensary.NewSecret(fake.ClinicKey())))
	clinic, err := client.Clinic.Get(t.Context())
	require.NoError(t, err)
	assert.False(t, clinic.IntegrationActivatedAt.IsZero(), "the key was sent, and activated the integration")

	narrow := fake.Client(model.User{}, dispensary.WithTokenSource(fake.TokenSource(model.User{}, "catalog:read")))
	_, err = narrow.Clinic.Get(t.Context())
	require.ErrorIs(t, err, api.ErrForbidden)
	_, err = fake.Client(model.User{}, dispensary.WithUserAgent("two\nlines")).Clinic.Get(t.Context())
	require.ErrorIs(t, err, api.ErrArgument)
	require.ErrorIs(t, err, dispensary.ErrNotSent)
	require.ErrorContains(t, err, "UserAgent")
	assert.Panics(t, func() { fake.Client(model.User{ID: "nobody"}) })
}

func TestTokenSourceDoesNotRefresh(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory(), WithClock(frozen()))
	source := fake.TokenSource(model.User{})
	one, err := source.Token(context.Background())
	require.NoError(t, err)
	assert.Equal(t, fake.Site().Environment, one.Environment)
	assert.Equal(t, fake.Clock.Now().Add(tokens.TokenLifetime), one.ExpiresAt)
	fake.Tokens.InvalidateAll()
	two, err := source.Token(context.Background())
	require.NoError(t, err)
	assert.Equal(t, one, two)
	_, err = fake.Client(model.User{}, dispensary.WithTokenSource(source)).Clinic.Get(t.Context())
	assert.ErrorIs(t, err, api.ErrUnauthorized)
}
