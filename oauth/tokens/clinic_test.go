package tokens_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

var clinic = oauth.Clinic{ID: "cl-1", IntegrationID: "int-1"}

// asking returns connections whose platform responds with response and failure. It also returns
// the tokens of the requests.
func (w *fixture) asking(t *testing.T, response *oauth.Clinic, failure *error) (*tokens.Connections, *[]string) {
	t.Helper()
	asked := &[]string{}
	return w.replica(t, func(c *settings) {
		c.Tokens.Clinic = func(_ context.Context, key tokenstore.Key, token api.AccessToken) (oauth.Clinic, error) {
			assert.Equal(t, user, key.User)
			*asked = append(*asked, token.Secret.Reveal())
			return *response, *failure
		}
	}), asked
}

func TestConnectStoresClinic(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, time.Hour, func(t *testing.T, w *fixture) {
		response, failure := clinic, error(nil)
		conns, asked := w.asking(t, &response, &failure)
		record, err := conns.Connect(t.Context(), user, api.NewSecret("code-1"))
		require.NoError(t, err)
		assert.Equal(t, clinic, record.Token.Clinic)
		assert.Equal(t, clinic, w.record(t).Token.Clinic)
		assert.Equal(t, []string{record.Token.AccessToken.Reveal()}, *asked)

		time.Sleep(2 * time.Hour)
		_, err = conns.TokenSource(user).Token(t.Context())
		require.NoError(t, err)
		require.NoError(t, conns.Close(t.Context()))
		assert.NotEqual(t, record.Token.AccessToken, w.record(t).Token.AccessToken)
		assert.Equal(t, clinic, w.record(t).Token.Clinic, "a refresh keeps it")
		assert.Len(t, *asked, 1)

		for _, wrong := range []string{strings.Repeat("x", 256), "a\x00b"} {
			response.ID = wrong
			record, err = conns.Connect(t.Context(), user, api.NewSecret("code-2"))
			require.NoError(t, err, "an invalid clinic does not prevent the connection")
			assert.Zero(t, record.Token.Clinic)
		}
	})
}

// Some users have no clinic in the record, because they connected before clinics were stored
// or while the request failed. Their next refresh finds the clinic.
func TestRefreshFindsMissingClinic(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, time.Second, func(t *testing.T, w *fixture) {
		response, failure := oauth.Clinic{}, errors.New("not now")
		conns, asked := w.asking(t, &response, &failure)
		source := conns.TokenSource(user)
		for range 2 {
			time.Sleep(2 * time.Hour)
			_, err := source.Token(t.Context())
			require.NoError(t, err)
			require.NoError(t, conns.Close(t.Context()))
			assert.Zero(t, w.record(t).Token.Clinic)
		}
		assert.Len(t, *asked, 2)
		response, failure = clinic, nil
		time.Sleep(2 * time.Hour)
		token, err := source.Token(t.Context())
		require.NoError(t, err)
		require.NoError(t, conns.Close(t.Context()))
		assert.Equal(t, clinic, w.record(t).Token.Clinic)
		assert.Equal(t, token.Secret, w.record(t).Token.AccessToken, "the record has the token of the refresh")
		for range 2 {
			time.Sleep(2 * time.Hour)
			_, err = source.Token(t.Context())
			require.NoError(t, err)
		}
		require.NoError(t, conns.Close(t.Context()))
		assert.Len(t, *asked, 3)
		assert.Equal(t, clinic, w.record(t).Token.Clinic)
	})
}

func TestSetClinicChangesOnlyClinic(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, time.Hour, func(t *testing.T, w *fixture) {
		before := w.record(t)
		w.requireToken(t, "access-0")
		require.NoError(t, w.conns.SetClinic(t.Context(), user, before.Token.Account(), clinic))
		after := w.record(t)
		assert.Equal(t, clinic, after.Token.Clinic)
		after.Token.Clinic = oauth.Clinic{}
		assert.Equal(t, before.Token, after.Token)
		token, err := w.source.Token(t.Context())
		require.NoError(t, err)
		assert.Equal(t, clinic.ID, token.Account.ClinicID, "the token in memory names the new clinic")
		version := w.record(t).Version
		require.NoError(t, w.conns.SetClinic(t.Context(), user, before.Token.Account(), clinic))
		assert.Equal(t, version, w.record(t).Version, "an unchanged clinic is not written")

		current := w.record(t).Token
		require.ErrorIs(t, w.conns.SetClinic(t.Context(), "nobody", current.Account(), clinic), api.ErrReauthorize)
		require.ErrorIs(t, w.conns.SetClinic(t.Context(), user, current.Account(), oauth.Clinic{ID: strings.Repeat("x", 256)}), api.ErrArgument)

		w.fail(t, tokenstore.ReasonInvalidGrant)
		require.NoError(t, w.conns.SetClinic(t.Context(), user, current.Account(), oauth.Clinic{ID: "cl-2"}))
		assert.Equal(t, tokenstore.StateReauthorize, w.record(t).State, "SetClinic does not remove the mark")
	})
}

// The clinic of an account is not stored for the account that the user has connected since.
func TestSetClinicComparesAccount(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, time.Hour, func(t *testing.T, w *fixture) {
		asked := w.saveOtherAccount(t)
		w.saveAccess(t, "access-new", time.Hour)
		require.ErrorIs(t, w.conns.SetClinic(t.Context(), user, asked.Account(), clinic), api.ErrAccountChanged)
		assert.Zero(t, w.record(t).Token.Clinic)

		asked = w.record(t).Token
		require.NoError(t, w.conns.SetClinic(t.Context(), user, asked.Account(), clinic))
		require.ErrorIs(t, w.conns.SetClinic(t.Context(), user, asked.Account(), oauth.Clinic{ID: "cl-2"}), api.ErrAccountChanged)
		assert.Equal(t, clinic, w.record(t).Token.Clinic)
	})
}

// A refresh that finds a missing clinic stores it only for its own account.
func TestMissingClinicComparesAccount(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		conns := w.replica(t, func(c *settings) {
			c.Tokens.Clinic = func(context.Context, tokenstore.Key, api.AccessToken) (oauth.Clinic, error) {
				w.saveOtherAccount(t)
				return clinic, nil
			}
		})
		_, err := conns.TokenSource(user).Token(t.Context())
		require.NoError(t, err)
		require.NoError(t, conns.Close(t.Context()))
		assert.Equal(t, "prac-0", w.record(t).Token.ResourceOwner.ID)
		assert.Zero(t, w.record(t).Token.Clinic)
		assert.NotContains(t, w.logs.String(), "could not store the clinic")
	})
}

// The record from before the lease is outdated: the owner of the lease may replace its pair.
func TestSetClinicKeepsPeersPair(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, time.Hour, func(t *testing.T, w *fixture) {
		lease, next := w.lease(t, 10*time.Second), w.record(t).Token
		next.AccessToken, next.RefreshToken = api.NewSecret("access-peer"), api.NewSecret("refresh-peer")
		setting := make(chan error)
		go func() { setting <- w.conns.SetClinic(t.Context(), user, next.Account(), clinic) }()
		time.Sleep(time.Second) // SetClinic has read the record and waits for the lease
		_, err := w.store.Commit(t.Context(), lease, next)
		require.NoError(t, err)
		require.NoError(t, <-setting)
		next.Clinic = clinic
		assert.Equal(t, next, w.record(t).Token)
	})
}

// returns is work with this result after a delay.
func returns(result string, after time.Duration) func(context.Context) string {
	return func(context.Context) string {
		time.Sleep(after)
		return result
	}
}

// If a replica crashes with the claim, the others wait for at most LeaseTTL.
func TestDeadReplicaEndsRunFlow(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		claim := tokenstore.FlowClaim{Environment: oauthtest.USSandbox, Flow: "flow-1", Owner: "dead"}
		_, err := w.store.ClaimFlow(t.Context(), claim, defaults.LeaseTTL)
		require.NoError(t, err)
		began := time.Now()
		_, ran, err := w.conns.RunFlow(t.Context(), user, "flow-1", returns("connected", 0))
		require.ErrorIs(t, err, tokenstore.ErrNoResult)
		assert.False(t, ran)
		assert.InDelta(t, defaults.LeaseTTL, time.Since(began), float64(2*time.Second))

		ctx, cancel := context.WithCancel(t.Context())
		claim.Flow = "flow-2"
		_, err = w.store.ClaimFlow(t.Context(), claim, defaults.LeaseTTL)
		require.NoError(t, err)
		time.AfterFunc(time.Second, cancel)
		_, _, err = w.conns.RunFlow(ctx, user, "flow-2", returns("connected", 0))
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestRunFlowSurvivesShortStoreOutage(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		for _, method := range []string{"ClaimFlow", "EndFlow"} {
			w.store.Break(method, errors.New("away"))
			time.AfterFunc(3*time.Second, func() { w.store.Break(method, nil) })
			ctx, cancel := context.WithCancel(t.Context())
			result, ran, err := w.conns.RunFlow(ctx, user, "flow-"+method, func(context.Context) string {
				cancel() // the browser has gone away
				return "connected"
			})
			require.NoError(t, err)
			assert.True(t, ran)
			assert.Equal(t, "connected", result)
			result, _, err = w.replica(t).RunFlow(t.Context(), user, "flow-"+method, returns("again", 0))
			require.NoError(t, err)
			assert.Equal(t, "connected", result)
		}
	})
}

func TestRunFlowFailsWithoutStore(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		w.store.Break("ClaimFlow", errors.New("away"))
		_, ran, err := w.conns.RunFlow(t.Context(), user, "flow-1", func(context.Context) string {
			require.Fail(t, "work ran without a claim")
			return ""
		})
		var failure *tokens.StoreError
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, "ClaimFlow", failure.Op)
		assert.Equal(t, user, failure.Key.User)
		assert.False(t, ran)
		for _, flow := range []string{"", "a b", "é"} {
			_, _, err = w.conns.RunFlow(t.Context(), user, flow, returns("", 0))
			require.ErrorIs(t, err, api.ErrArgument)
		}
	})
}
