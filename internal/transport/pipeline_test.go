package transport

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// The first link is the outermost: it begins first and ends last.
func TestLinksNest(t *testing.T) {
	t.Parallel()
	var order []string
	around := func(name string) link {
		return func(ctx context.Context, s *callState, next step) error {
			order = append(order, name)
			defer func() { order = append(order, "after "+name) }()
			return next(ctx, s)
		}
	}
	innermost := func(context.Context, *callState, step) error { order = append(order, "innermost"); return nil }
	require.NoError(t, compose(around("a"), around("b"), innermost)(t.Context(), nil))
	assert.Equal(t, []string{"a", "b", "innermost", "after b", "after a"}, order)
}

// tokensOf is a token source that records when it is asked.
type tokensOf func() (api.AccessToken, error)

func (f tokensOf) Token(context.Context) (api.AccessToken, error) { return f() }

// Arguments are checked before a token is fetched, a token before the limiter is asked,
// and the limiter before anything is sent.
func TestPipelineOrder(t *testing.T) {
	t.Parallel()
	get := Call{Operation: operation.PatientGet, Path: []string{"p"}}
	for name, c := range map[string]struct {
		call     Call
		tokenErr error
		want     []string
	}{
		"all steps":    {get, nil, []string{"token", "limiter", "sent"}},
		"no token":     {get, errors.New("none"), []string{"token"}},
		"bad argument": {Call{Operation: operation.PatientGet}, nil, nil},
	} {
		var order []string
		client := newTestClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			order = append(order, "sent")
			return reply(200, `{"patient":{"id":"p"}}`), nil
		}), func(config *Config) {
			config.Tokens = tokensOf(func() (api.AccessToken, error) { order = append(order, "token"); return validToken(), c.tokenErr })
			config.Limiter = limiterFunc(func(context.Context) error { order = append(order, "limiter"); return nil })
		})
		_, err := One[thing](t.Context(), client, c.call)
		assert.Equal(t, len(c.want) == 3, err == nil, name)
		assert.Equal(t, c.want, order, name)
	}
}
