package oauth_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

func TestConnectTellsWhoWasThereBefore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		before := firstToken(time.Hour)
		before.ResourceOwner.ID = "prac-0"
		w.save(t, before)
		var seen oauth.Authorization
		_, err := w.client.Connect(t.Context(), w.store, user, "code-1", func(_ context.Context, grant oauth.Authorization) error {
			seen = grant
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, oauth.Authorization{
			Key: w.client.Key(user), Owner: oauth.ResourceOwner{ID: "prac-1", Type: oauth.OwnerPractitioner},
			Previous: oauth.ResourceOwner{ID: "prac-0", Type: oauth.OwnerPractitioner}, Scopes: []string{"catalog:read", "clinic:read"},
		}, seen)
		_, err = w.client.Connect(t.Context(), w.store, " ", "code-1", nil)
		require.ErrorIs(t, err, api.ErrInvalidArgument)
	})
}

// Who was there before is not known: verify would take it for nobody.
func TestConnectThatCannotReadWhoWasThereFails(t *testing.T) {
	t.Parallel()
	for name, problem := range map[string]error{"away": errors.New("away"), "unreadable": oauth.ErrUnreadable} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, none, time.Hour)
				w.store.breaks("Load", problem)
				_, err := w.client.Connect(t.Context(), w.store, user, "code-1", func(context.Context, oauth.Authorization) error {
					t.Error("verify was asked without knowing who was there before")
					return nil
				})
				var failure *oauth.StoreError
				require.ErrorAs(t, err, &failure)
				require.ErrorIs(t, err, problem)
				assert.Equal(t, "Load", failure.Op)
				assert.Equal(t, []string{"/api/oauth/token", "/api/oauth/revoke"}, w.platform.routes)
				assert.Equal(t, "access-1", w.platform.sent()[1]["token"])
				w.store.breaks("Load", nil)
				assert.Equal(t, "access-0", w.record(t).Token.AccessToken.Reveal())
			})
		})
	}
}

// A store that comes back in time is asked again: the code cannot be.
func TestConnectWaitsForAStoreThatComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		w.store.breaks("Load", errors.New("away"))
		time.AfterFunc(3*time.Second, func() { w.store.breaks("Load", nil) })
		var previous string
		_, err := w.client.Connect(t.Context(), w.store, user, "code-1", func(_ context.Context, grant oauth.Authorization) error {
			previous = grant.Previous.ID
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, "prac-1", previous)
	})
}

// Where nobody compares, a user is not kept from connecting by a row that cannot be
// read, and that the new token replaces.
func TestConnectWithoutVerifyReplacesWhatCannotBeRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		w.store.breaks("Load", oauth.ErrUnreadable)
		_, err := w.client.Connect(t.Context(), w.store, user, "code-1", nil)
		require.NoError(t, err)
		w.store.breaks("Load", nil)
		assert.Equal(t, "access-1", w.record(t).Token.AccessToken.Reveal())
	})
}

func TestConnectEndsACooldown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, -time.Minute)
		w.platform.inject(answers(500, ""), answers(500, ""))
		_, err := w.source.Token(t.Context())
		require.ErrorIs(t, err, api.ErrServer)
		_, err = w.client.Connect(t.Context(), w.store, user, "code-1", nil)
		require.NoError(t, err)
		w.requireToken(t, "access-1")
	})
}

func TestDisconnectRevokesAndForgets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, -time.Hour) // an expired token can be revoked
		require.NoError(t, w.client.Disconnect(t.Context(), w.store, user))
		assert.Equal(t, []string{"/api/oauth/revoke"}, w.platform.routes)
		assert.Equal(t, "access-0", w.platform.sent()[0]["token"])
		_, err := w.store.Load(t.Context(), w.client.Key(user))
		require.ErrorIs(t, err, oauth.ErrNoRecord)
		require.NoError(t, w.client.Disconnect(t.Context(), w.store, user), "again is no error")
		assert.Len(t, w.platform.sent(), 1)
		require.ErrorIs(t, w.client.Disconnect(t.Context(), w.store, ""), api.ErrInvalidArgument)
	})
}

func TestDisconnectThatThePlatformDoesNotHear(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"500": answers(500, ""), "HTML": answers(502, html), "reset": drops, "429": retryAfter("3600"),
		"invalid_client": answers(401, `{"error":"invalid_client"}`),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, none, time.Hour)
				w.platform.inject(times(9, f)...)
				require.Error(t, w.client.Disconnect(t.Context(), w.store, user))
				record := w.record(t)
				assert.Equal(t, oauth.StateReauthorize, record.State)
				assert.Equal(t, oauth.ReasonDisconnecting, record.Reason)
				_, err := w.source.Token(t.Context())
				requireReauthorize(t, err, oauth.ReasonDisconnecting)
				w.platform.replace()
				require.NoError(t, w.client.Disconnect(t.Context(), w.store, user))
				_, err = w.store.Load(t.Context(), w.client.Key(user))
				require.ErrorIs(t, err, oauth.ErrNoRecord)
			})
		})
	}
}

// What the platform does not know any more need not be revoked.
func TestDisconnectOfADeadGrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		w.platform.inject(answers(401, `{"error":"invalid_grant"}`))
		require.NoError(t, w.client.Disconnect(t.Context(), w.store, user))
	})
}

// unknown are answers that a platform may give to who revokes a token that it has
// forgotten, or never knew.
var unknown = map[string]fault{
	"bare 401":        answers(401, ``),
	"invalid_token":   answers(401, `{"error":"invalid_token"}`),
	"invalid_request": answers(400, `{"error":"invalid_request","error_description":"The token is not known."}`),
	"404":             answers(404, `{"error":"Not Found"}`),
}

// Where the answer does not say that the token is forgotten, the token endpoint does:
// a user who revoked the application at the platform can be disconnected here.
func TestDisconnectEndsWhereThePlatformHasForgottenTheToken(t *testing.T) {
	t.Parallel()
	for name, f := range unknown {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, immediate, time.Hour)
				w.platform.forgetAll()
				w.platform.inject(f)
				require.NoError(t, w.client.Disconnect(t.Context(), w.store, user))
				_, err := w.store.Load(t.Context(), w.client.Key(user))
				require.ErrorIs(t, err, oauth.ErrNoRecord)

				// A token that ended and cannot be refreshed is of no use to anybody.
				ended := firstToken(-time.Minute)
				ended.RefreshToken = ""
				w.save(t, ended)
				w.platform.inject(f)
				require.NoError(t, w.client.Disconnect(t.Context(), w.store, user))
			})
		})
	}
}

// A platform that refuses to revoke and still refreshes has not forgotten: the new
// pair is revoked, or kept until it is.
func TestDisconnectOfATokenThatIsNotForgotten(t *testing.T) {
	t.Parallel()
	for name, f := range unknown {
		if name == "invalid_token" {
			continue // that is clear
		}
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, immediate, time.Hour)
				w.platform.inject(f, nil, f)
				require.Error(t, w.client.Disconnect(t.Context(), w.store, user))
				record := w.record(t)
				assert.Equal(t, oauth.ReasonDisconnecting, record.Reason)
				assert.Equal(t, "refresh-1", record.Token.RefreshToken.Reveal(), "or nobody could revoke it")
				w.platform.inject(f)
				require.NoError(t, w.client.Disconnect(t.Context(), w.store, user))
				sent := w.platform.sent()
				assert.Equal(t, "access-2", sent[len(sent)-1]["token"])
				_, err := w.store.Load(t.Context(), w.client.Key(user))
				require.ErrorIs(t, err, oauth.ErrNoRecord)
			})
		})
	}
}

// Credentials that the platform refuses are no word on the token.
func TestDisconnectWithWrongCredentials(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		w.platform.inject(times(9, answers(401, ``))...)
		var refusal *oauth.ConfigError
		require.ErrorAs(t, w.client.Disconnect(t.Context(), w.store, user), &refusal)
		assert.Equal(t, oauth.ReasonDisconnecting, w.record(t).Reason)
		assert.Equal(t, "refresh-0", w.record(t).Token.RefreshToken.Reveal())
	})
}

// A refresh under way is waited for: the pair that it brings is the one revoked.
func TestDisconnectWaitsForARefresh(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		w.platform.delay = 3 * time.Second
		done := make(chan error, 1)
		go func() { _, err := w.source.Token(t.Context()); done <- err }()
		time.Sleep(time.Second)
		require.NoError(t, w.replica(t).Disconnect(t.Context(), w.store, user))
		require.NoError(t, <-done)
		sent := w.platform.sent()
		assert.Equal(t, "access-1", sent[len(sent)-1]["token"])
	})
}

func TestDisconnectGivesUpOnAStuckLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		record := w.record(t)
		_, err := w.store.Lease(t.Context(), oauth.Lease{Key: record.Key, Version: record.Version, Owner: "stuck"}, time.Hour)
		require.NoError(t, err)
		require.ErrorIs(t, w.client.Disconnect(t.Context(), w.store, user), oauth.ErrLeased)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, w.client.Disconnect(ctx, w.store, user), context.DeadlineExceeded)
		assert.Empty(t, w.platform.sent())
	})
}

// A user who connects anew while the old token is being revoked stays connected.
func TestDisconnectSparesANewConnection(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{"revoked": nil, "not heard": answers(500, "")} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, none, time.Hour)
				w.platform.inject(func(handle func() *http.Response) (*http.Response, error) {
					fresh := firstToken(2 * time.Hour)
					fresh.AccessToken = "fresh"
					w.save(t, fresh)
					if f != nil {
						return f(handle)
					}
					return respond(200, `{}`), nil
				})
				_ = w.client.Disconnect(t.Context(), w.store, user)
				assert.Equal(t, oauth.StateActive, w.record(t).State)
				w.requireToken(t, "fresh")
			})
		})
	}
}

func TestDisconnectWithTheStoreAway(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Load", "Lease", "DeleteVersion"} {
		t.Run(method, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, none, time.Hour)
				w.store.breaks(method, errors.New("away"))
				err := w.client.Disconnect(t.Context(), w.store, user)
				var problem *oauth.StoreError
				require.ErrorAs(t, err, &problem)
				assert.Equal(t, method, problem.Op)
				w.store.breaks(method, nil)
				time.Sleep(time.Minute)
				require.NoError(t, w.client.Disconnect(t.Context(), w.store, user))
			})
		})
	}
}

// The pair that is only in memory is the one to be revoked.
func TestDisconnectWithAnUnwrittenPair(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		w.store.breaks("Commit", errors.New("away"))
		_, err := w.source.Token(t.Context())
		require.Error(t, err)
		require.Equal(t, 1, w.client.Unwritten())
		var problem *oauth.StoreError
		require.ErrorAs(t, w.client.Disconnect(t.Context(), w.store, user), &problem)
		w.store.breaks("Commit", nil)
		time.Sleep(time.Minute)
		require.NoError(t, w.client.Disconnect(t.Context(), w.store, user))
		sent := w.platform.sent()
		assert.Equal(t, "access-1", sent[len(sent)-1]["token"])
	})
}

func TestRefusedTokenThatCannotBeRevokedIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		w.platform.inject(nil, answers(500, ""))
		_, err := w.client.Connect(t.Context(), w.store, user, "code-1", func(context.Context, oauth.Authorization) error { return errors.New("no") })
		require.ErrorIs(t, err, oauth.ErrOwnerRefused)
		assert.Contains(t, w.logs.String(), "could not be revoked")
		w.requireToken(t, "access-0")
	})
}

func TestUsableAsksNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, -time.Hour)
		record := w.record(t)
		require.NoError(t, w.client.Usable(record), "it can be refreshed")
		marked := record
		marked.State, marked.Reason = oauth.StateReauthorize, oauth.ReasonInvalidGrant
		requireReauthorize(t, w.client.Usable(marked), oauth.ReasonInvalidGrant)
		abroad := record
		abroad.Token.Environment = caSandbox
		require.ErrorIs(t, w.client.Usable(abroad), api.ErrWrongEnvironment)
		record.Token.ConfiguredScope = "catalog:read"
		grown := newClient(t, w.platform, func(c *oauth.Config) { c.Scopes = []string{"catalog:read", "clinic"} })
		requireReauthorize(t, grown.Usable(record), oauth.ReasonScopesExtended)
		assert.Empty(t, w.platform.sent())
	})
}

func TestReloadFindsWhatAPeerStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		w.requireToken(t, "access-0")
		more := firstToken(2 * time.Hour)
		more.AccessToken, more.Scope = "access-9", "catalog:read patients:read"
		w.save(t, more)
		w.requireToken(t, "access-0")
		token, err := w.source.Reload(t.Context())
		require.NoError(t, err)
		assert.True(t, token.HasScope("patients:read"))
		w.requireToken(t, "access-9")
		assert.Empty(t, w.platform.sent())
		_, err = w.client.TokenSource(w.store, "").Reload(t.Context())
		require.ErrorIs(t, err, api.ErrInvalidArgument)
		_, err = w.client.TokenSource(w.store, "nobody").Reload(t.Context())
		requireReauthorize(t, err, oauth.ReasonNotConnected)
	})
}
