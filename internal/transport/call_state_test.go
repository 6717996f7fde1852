package transport

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
)

// moving is a token source whose user connects another account after a number of tokens.
type moving struct {
	accounts []api.Account // of the tokens in order, the last one for all later tokens
	tokens   atomic.Int32
}

func (m *moving) Token(context.Context) (api.AccessToken, error) {
	n := int(m.tokens.Add(1))
	return api.AccessToken{
		Secret: api.NewSecret(fmt.Sprint("token-", n)), Environment: sandbox, Account: m.accounts[min(n, len(m.accounts))-1],
	}, nil
}

func (m *moving) Refresh(ctx context.Context, _ api.AccessToken) (api.AccessToken, error) {
	return m.Token(ctx)
}

var (
	jane     = api.Account{OwnerType: "Practitioner", OwnerID: "1", ClinicID: "7"}
	john     = api.Account{OwnerType: "Practitioner", OwnerID: "2", ClinicID: "8"}
	moved    = api.Account{OwnerType: "Practitioner", OwnerID: "1", ClinicID: "8"}
	homeless = api.Account{OwnerType: "Practitioner", OwnerID: "1"}
	anyone   = api.Account{ClinicID: "7"}
)

func TestCallIsNotRepeatedAsOtherAccount(t *testing.T) {
	t.Parallel()
	for _, other := range []api.Account{john, moved} {
		transport := accept("token-2")
		err := createOnce(t.Context(), newTestClient(t, transport, withTokens(&moving{accounts: []api.Account{jane, other}})))
		var changed *api.AccountChangedError
		require.ErrorAs(t, err, &changed)
		assert.Equal(t, api.AccountChangedError{Before: jane, Now: other}, *changed)
		assert.ErrorIs(t, err, api.ErrAccountChanged)
		assert.ErrorIs(t, err, api.ErrNotApplied)
		assert.EqualValues(t, 1, transport.calls.Load())
		assert.Equal(t, http.StatusConflict, api.ProblemOf(err).Status)
	}
}

func TestUnknownAccountIsNotCompared(t *testing.T) {
	t.Parallel()
	for _, accounts := range [][]api.Account{{jane, {}}, {{}, jane}, {homeless, jane}, {jane, homeless}, {anyone, jane}} {
		transport := accept("token-2")
		require.NoError(t, createOnce(t.Context(), newTestClient(t, transport, withTokens(&moving{accounts: accounts}))))
	}
}

func TestListEndsIfAccountChanges(t *testing.T) {
	t.Parallel()
	for name, accounts := range map[string][]api.Account{
		"known at once": {jane, jane, john}, "known later": {homeless, jane, moved},
	} {
		for _, prefetch := range []int{0, 4} {
			t.Run(fmt.Sprint(name, prefetch), func(t *testing.T) {
				t.Parallel()
				transport := &answers{answer: func(_ int, r *http.Request) (*http.Response, error) {
					number := param(r, "page[number]")
					return products(number*10-10, number*10, `{"current_page":%d,"total_pages":9,"total_count":90}`, number), nil
				}}
				client := newTestClient(t, transport, withTokens(&moving{accounts: accounts}))
				items, err := collect(t, client, api.ListSettings{Prefetch: prefetch})
				assert.ErrorIs(t, err, api.ErrAccountChanged)
				assert.ErrorIs(t, err, api.ErrNotSent)
				assert.EqualValues(t, 2, transport.calls.Load(), "requests sent")
				assert.LessOrEqual(t, len(items), 20)
			})
		}
	}
}

func TestWorkBelongsToOneClient(t *testing.T) {
	t.Parallel()
	transport := accept("token-1")
	work := OneAccount(t.Context())
	mine := newTestClient(t, transport, withTokens(&moving{accounts: []api.Account{jane}}))
	require.NoError(t, get(work, mine))
	assert.Equal(t, work, mine.OneAccount(work), "part of larger work")

	others := newTestClient(t, transport, withTokens(&moving{accounts: []api.Account{john}}))
	require.NoError(t, get(work, others), "a token source may call with the context of a call")
	assert.NotEqual(t, work, others.OneAccount(work))
}
