package accounts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// clinicsFixture is a platform with three clinics. Each clinic has three connected users:
// "a-0" is the first user of the first clinic.
type clinicsFixture struct {
	*fixture
	platform    *dispensarytest.Server
	environment dispensary.Environment
	clinics     []string
	people      map[string][]model.User // by clinic
}

func newClinicsFixture(t *testing.T, change func(*clinicsFixture, *accounts.Config), options ...dispensarytest.Option) *clinicsFixture {
	t.Helper()
	f := &clinicsFixture{people: map[string][]model.User{}}
	f.platform = newPlatform(t, 0, append(options, dispensarytest.WithTuning(dispensarytest.Tuning{WorldSize: model.WorldSize{Clinics: 3}}))...)
	f.environment = f.platform.Site().Environment
	for _, one := range f.platform.Clinics.All() {
		f.clinics = append(f.clinics, one.ID)
	}
	for _, person := range f.platform.Users() {
		f.people[person.ClinicID] = append(f.people[person.ClinicID], person)
	}
	f.fixture = newFixtureOn(t, []*dispensarytest.Server{f.platform}, func(c *accounts.Config) {
		if change != nil {
			change(f, c)
		}
	})
	for i, id := range f.clinics {
		for n, person := range f.people[id][:3] {
			f.connect(t, fmt.Sprintf("%c-%d", 'a'+i, n), person)
		}
	}
	f.platform.Journal.Reset()
	return f
}

func (f *clinicsFixture) conns(t *testing.T) *tokens.Connections {
	t.Helper()
	conns, err := f.accounts.Connections(f.environment)
	require.NoError(t, err)
	return conns
}

// connect authorizes user as a person of the platform.
func (f *clinicsFixture) connect(t *testing.T, user string, person model.User) {
	t.Helper()
	address, err := f.conns(t).Client().AuthorizeURL("state-1")
	require.NoError(t, err)
	back, err := f.platform.Approve(address, person)
	require.NoError(t, err)
	require.NoError(t, f.accounts.Connect(t.Context(), user, dispensary.NewSecret(back.Query().Get("code"))))
}

// connectElsewhere connects user as a person of a clinic on another replica.
func (f *clinicsFixture) connectElsewhere(t *testing.T, user, clinicID string) {
	t.Helper()
	peer, err := tokens.NewConnections(tokens.Config{
		Client: f.conns(t).Client(), Store: f.store,
		Clinic: func(context.Context, tokenstore.Key, api.AccessToken) (oauth.Clinic, error) {
			return oauth.Clinic{ID: clinicID, IntegrationID: "integration"}, nil
		},
	})
	require.NoError(t, err)
	address, err := peer.Client().AuthorizeURL("state-1")
	require.NoError(t, err)
	back, err := f.platform.Approve(address, f.people[clinicID][0])
	require.NoError(t, err)
	_, err = peer.Connect(t.Context(), user, dispensary.NewSecret(back.Query().Get("code")))
	require.NoError(t, err)
}

// revoke revokes a user's authorization on the platform without the knowledge of the accounts.
func (f *clinicsFixture) revoke(t *testing.T, user string) {
	t.Helper()
	conns := f.conns(t)
	record, err := conns.Record(t.Context(), user)
	require.NoError(t, err)
	require.NoError(t, conns.Client().Revoke(t.Context(), record.Token))
}

// userOf returns the user that newClinicsFixture connected as a person of the platform.
func (f *clinicsFixture) userOf(personID string) string {
	for i, id := range f.clinics {
		for n, person := range f.people[id] {
			if person.ID == personID {
				return fmt.Sprintf("%c-%d", 'a'+i, n)
			}
		}
	}
	return ""
}

// forClinic returns the clinic and verifies that its client reaches it.
func (f *clinicsFixture) forClinic(t *testing.T, id string) *accounts.Clinic {
	t.Helper()
	found, err := f.accounts.ForClinic(t.Context(), f.environment, id, accounts.ClinicOptions{})
	require.NoError(t, err)
	f.reaches(t, found)
	return found
}

func (f *clinicsFixture) reaches(t *testing.T, c *accounts.Clinic) {
	t.Helper()
	got, err := c.Client.Clinic.Get(t.Context())
	require.NoError(t, err)
	assert.Equal(t, c.ID, got.ID)
}

// none verifies that no user may call for a clinic.
func (f *clinicsFixture) none(t *testing.T, id string, users int) {
	t.Helper()
	_, err := f.accounts.ForClinic(t.Context(), f.environment, id, accounts.ClinicOptions{})
	f.isNone(t, err, id, users)
}

func (f *clinicsFixture) isNone(t *testing.T, err error, id string, users int) {
	t.Helper()
	var none *accounts.ClinicError
	require.ErrorAs(t, err, &none)
	require.ErrorIs(t, err, dispensary.ErrReauthorize)
	assert.Equal(t, accounts.ClinicError{Environment: f.environment, ClinicID: id, Users: users}, *none)
	require.ErrorContains(t, err, id)
}

// The key of the user's clinic does not hide that the account belongs to another one.
func TestConnectFindsOtherClinicDespiteKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		platform := newPlatform(t, 0, dispensarytest.WithTuning(dispensarytest.Tuning{WorldSize: model.WorldSize{Clinics: 2}}))
		own, other := platform.Clinics.All()[0].ID, platform.Users()[len(platform.Users())-1]
		require.NotEqual(t, own, other.ClinicID)
		errOther := errors.New("the account belongs to another clinic")
		var log bytes.Buffer
		f := newFixtureOn(t, []*dispensarytest.Server{platform}, func(c *accounts.Config) {
			c.Applications[0].Logger = slog.New(slog.NewTextHandler(&log, nil))
			c.ClinicKey = func(context.Context, string) (dispensary.Secret, error) {
				return dispensary.NewSecret(platform.ClinicKey()), nil
			}
			c.Tokens.Verify = func(_ context.Context, grant tokens.Authorization) error {
				assert.Equal(t, other.ClinicID, grant.Clinic.ID)
				return errOther
			}
		})
		conns, err := f.accounts.Connections(platform.Site().Environment)
		require.NoError(t, err)
		address, err := conns.Client().AuthorizeURL("state-1")
		require.NoError(t, err)
		back, err := platform.Approve(address, other)
		require.NoError(t, err)
		err = f.accounts.Connect(t.Context(), "dr-17", dispensary.NewSecret(back.Query().Get("code")))
		require.ErrorIs(t, err, tokens.ErrOwnerRejected)
		require.ErrorIs(t, err, errOther)
		assert.Contains(t, log.String(), "rejects the clinic key of a user", "the key may be wrong instead")
	})
}

func TestConnectStoresClinicOfUser(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newClinicsFixture(t, nil)
		account, err := f.accounts.Status(t.Context(), "b-1")
		require.NoError(t, err)
		assert.Equal(t, f.clinics[1], account.Clinic.ID)
		assert.NotEmpty(t, account.Clinic.IntegrationID)
		assert.Equal(t, f.platform.Clinics.All()[1].Name, account.Clinic.Name)
		var users []string
		for account, err := range f.accounts.List(t.Context(), accounts.ListOptions{ClinicID: f.clinics[1]}) {
			require.NoError(t, err)
			users = append(users, account.Key.User)
		}
		assert.Equal(t, []string{"b-0", "b-1", "b-2"}, users)
		sorted := slices.Sorted(slices.Values(f.clinics))
		page, err := f.accounts.Clinics(t.Context(), f.environment, "", 2)
		require.NoError(t, err)
		assert.Equal(t, sorted[:2], page)
		page, err = f.accounts.Clinics(t.Context(), f.environment, page[1], 2)
		require.NoError(t, err)
		assert.Equal(t, sorted[2:], page)
	})
}

func TestForClinicRotatesUsersDaily(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newClinicsFixture(t, nil)
		for i, id := range f.clinics {
			var days []string
			for range 6 {
				one := f.forClinic(t, id)
				for range 5 {
					time.Sleep(time.Hour)
					assert.Equal(t, one.User(), f.forClinic(t, id).User(), "the user must stay the same for a day")
				}
				days = append(days, one.User())
				time.Sleep(19 * time.Hour)
			}
			assert.Equal(t, days[:3], days[3:])
			slices.Sort(days)
			prefix := string(rune('a' + i))
			assert.Equal(t, []string{prefix + "-0", prefix + "-1", prefix + "-2"}, slices.Compact(days))
		}
	})
}

func TestForClinicSwitchesToNextUser(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newClinicsFixture(t, nil)
		held := f.forClinic(t, f.clinics[0])
		var called []string
		for range 3 {
			called = append(called, held.User())
			f.revoke(t, held.User())
			if len(called) < 3 {
				f.reaches(t, held) // switches during the call
				time.Sleep(time.Minute)
				assert.Equal(t, held.User(), f.forClinic(t, f.clinics[0]).User())
			}
		}
		slices.Sort(called)
		assert.Equal(t, []string{"a-0", "a-1", "a-2"}, called)
		_, err := held.Client.Clinic.Get(t.Context())
		require.ErrorContains(t, err, "invalid_grant")
		time.Sleep(time.Minute)
		_, err = held.Client.Clinic.Get(t.Context())
		f.isNone(t, err, f.clinics[0], 3)
		assert.Empty(t, held.User())
		f.none(t, f.clinics[0], 3)
		f.forClinic(t, f.clinics[1])

		f.connect(t, "a-1", f.people[f.clinics[0]][1])
		assert.Equal(t, "a-1", f.forClinic(t, f.clinics[0]).User())
	})
}

// If the API rejects even a new token, another user calls, but the first one is not marked.
func TestForClinicPutsOffRejectedUser(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newClinicsFixture(t, nil)
		held := f.forClinic(t, f.clinics[0])
		rejected := held.User()
		f.platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 401, Operation: "clinic.get", Times: 3})
		_, err := held.Client.Clinic.Get(t.Context())
		require.ErrorIs(t, err, api.ErrUnauthorized)
		f.reaches(t, held)
		assert.NotEqual(t, rejected, held.User())
		account, err := f.accounts.Status(t.Context(), rejected)
		require.NoError(t, err)
		assert.Equal(t, accounts.StatusConnected, account.Status)
	})
}

func TestUsersMoveBetweenClinics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newClinicsFixture(t, nil)
		from, to := f.clinics[0], f.clinics[1]
		// Users connect as a person of another clinic.
		for n := range 2 {
			f.connect(t, fmt.Sprint("a-", n), f.people[to][n])
		}
		for range 3 {
			assert.Equal(t, "a-2", f.forClinic(t, from).User())
			time.Sleep(24 * time.Hour)
		}
		f.forClinic(t, to)
		require.NoError(t, f.accounts.Disconnect(t.Context(), "a-2"))
		f.none(t, from, 0)
		clinics, err := f.accounts.Clinics(t.Context(), f.environment, "", 5)
		require.NoError(t, err)
		assert.NotContains(t, clinics, from)

		// The user moves on the platform, so only Integrations detects it.
		f.setClinic(t, "b-0", oauth.Clinic{ID: from, IntegrationID: "before"})
		moved, err := f.accounts.ForClinic(t.Context(), f.environment, from, accounts.ClinicOptions{})
		require.NoError(t, err)
		_, err = moved.Integrations(t.Context())
		f.isNone(t, err, from, 0)
		account, err := f.accounts.Status(t.Context(), "b-0")
		require.NoError(t, err)
		assert.Equal(t, to, account.Clinic.ID)
	})
}

func (f *clinicsFixture) setClinic(t *testing.T, user string, clinic oauth.Clinic) {
	t.Helper()
	record, err := f.conns(t).Record(t.Context(), user)
	require.NoError(t, err)
	require.NoError(t, f.conns(t).SetClinic(t.Context(), user, record.Token.Account(), clinic))
}

// The current user's refresh token is rejected for the first time, which marks nobody.
func TestIntegrationsSwitchesToNextUser(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newClinicsFixture(t, nil)
		account, err := f.accounts.Status(t.Context(), "a-0")
		require.NoError(t, err)
		held := f.forClinic(t, f.clinics[0])
		for _, effect := range []func(){
			func() { time.Sleep(3 * time.Hour); f.revoke(t, held.User()) },
			func() {
				f.platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 401, Operation: "clinic.get", Times: 2})
			},
		} {
			effect()
			before := held.User()
			ids, err := held.Integrations(t.Context())
			require.NoError(t, err)
			assert.Equal(t, []string{account.Clinic.IntegrationID}, ids)
			assert.NotEqual(t, before, held.User())
		}
	})
}

// If a record has no clinic yet, the first use that refreshes the token adds it.
func TestRefreshAddsMissingClinic(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newClinicsFixture(t, nil)
		for n := range 3 {
			f.setClinic(t, fmt.Sprint("a-", n), oauth.Clinic{})
		}
		f.none(t, f.clinics[0], 0)
		time.Sleep(3 * time.Hour)
		client, err := f.accounts.Client(t.Context(), "a-1")
		require.NoError(t, err)
		_, err = client.Clinic.Patients.List().Page(t.Context())
		require.NoError(t, err)
		require.NoError(t, f.accounts.Close(t.Context()))
		assert.Equal(t, "a-1", f.forClinic(t, f.clinics[0]).User())
	})
}

// counter is a limiter that never delays.
type counter struct{ asked int }

func (c *counter) Wait(context.Context) error { c.asked++; return nil }

func TestForClinicUsesKeyAndLimiter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var own, budget counter
		f := newClinicsFixture(t, func(f *clinicsFixture, c *accounts.Config) {
			c.ClinicKey = func(_ context.Context, user string) (dispensary.Secret, error) {
				return dispensary.NewSecret(f.platform.ClinicKeys(f.clinics[user[0]-'a'])[0]), nil
			}
			options := c.Options
			c.Options = func(e dispensary.Environment) []dispensary.Option {
				return append(options(e), dispensary.WithLimiter(&own))
			}
		}, dispensarytest.WithBehavior(behavior.ClinicKeyHeaderAlways))
		own.asked = 0
		for i, id := range f.clinics {
			found, err := f.accounts.ForClinic(t.Context(), f.environment, id, accounts.ClinicOptions{Limiter: &budget})
			require.NoError(t, err)
			f.reaches(t, found)
			assert.Equal(t, []int{i + 1, i + 1}, []int{own.asked, budget.asked}, "each attempt must wait for both limiters once")
		}
		f.forClinic(t, f.clinics[0])
		assert.Equal(t, []int{4, 3}, []int{own.asked, budget.asked})
	})
}

func TestForClinicRequiresScopes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newClinicsFixture(t, nil)
		all := accounts.ClinicOptions{Scopes: []string{"patients:read", "clinic:write"}}
		for n := range 3 {
			key := f.conns(t).Key(fmt.Sprint("a-", n))
			record, err := f.store.Load(t.Context(), key)
			require.NoError(t, err)
			record.Token.Scope = []string{"clinic:read", "catalog:read clinic patients:read", "patients"}[n]
			_, err = f.store.Save(t.Context(), key, record.Token)
			require.NoError(t, err)
		}
		for range 3 {
			found, err := f.accounts.ForClinic(t.Context(), f.environment, f.clinics[0], all)
			require.NoError(t, err)
			assert.Equal(t, "a-1", found.User())
			time.Sleep(24 * time.Hour)
		}
		require.NoError(t, f.accounts.Disconnect(t.Context(), "a-1"))
		_, err := f.accounts.ForClinic(t.Context(), f.environment, f.clinics[0], all)
		var none *accounts.ClinicError
		require.ErrorAs(t, err, &none)
		assert.Equal(t, []int{2, 2}, []int{none.Users, none.MissingScope})
	})
}

func TestForClinicReportsErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newClinicsFixture(t, nil)
		_, err := f.accounts.ForClinic(t.Context(), f.environment, "", accounts.ClinicOptions{})
		require.ErrorIs(t, err, api.ErrArgument)
		elsewhere := dispensary.CanadaSandbox
		_, err = f.accounts.ForClinic(t.Context(), elsewhere, "x", accounts.ClinicOptions{})
		require.ErrorIs(t, err, api.ErrArgument)
		_, err = f.accounts.Clinics(t.Context(), elsewhere, "", 1)
		require.ErrorIs(t, err, api.ErrArgument)
		f.none(t, "unknown", 0)

		// A failed refresh must neither mark a user nor lead to attempts for all users.
		time.Sleep(3 * time.Hour)
		f.platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 503, Operation: "oauth.token"})
		_, err = f.accounts.ForClinic(t.Context(), f.environment, f.clinics[0], accounts.ClinicOptions{})
		require.Error(t, err)
		require.NotErrorIs(t, err, dispensary.ErrReauthorize)
		assert.LessOrEqual(t, len(f.platform.Journal.Requests("oauth.token")), 2)
		for account, err := range f.accounts.List(t.Context(), accounts.ListOptions{State: tokenstore.StateReauthorize}) {
			require.NoError(t, err)
			require.Fail(t, "marked user", account)
		}
	})
}

// The user of a job connects the account of a colleague in another clinic while the job runs.
func TestForClinicStaysInClinic(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newClinicsFixture(t, nil)
		job := f.forClinic(t, f.clinics[0])
		f.connect(t, job.User(), f.people[f.clinics[1]][3])
		f.reaches(t, job)
		created, err := job.Client.Clinic.Patients.Create(t.Context(), clinic.PatientCreate{FirstName: "Pat", LastName: "Example", Email: "pat@example.com"})
		require.NoError(t, err)
		for _, patient := range f.platform.Patients.All() {
			if patient.ID == created.ID {
				assert.Equal(t, job.ID, patient.ClinicID)
			}
		}
		ids, err := job.Integrations(t.Context())
		require.NoError(t, err)
		account, err := f.accounts.Status(t.Context(), job.User())
		require.NoError(t, err)
		assert.Equal(t, oauth.Clinic{ID: job.ID, IntegrationID: ids[0], Name: account.Clinic.Name}, account.Clinic)
	})
}

// Another replica connects the user as somebody else, and the platform rejects the old token.
func TestClientRepeatsNoWriteAsOtherAccount(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newClinicsFixture(t, nil)
		client, err := f.accounts.Client(t.Context(), "a-0")
		require.NoError(t, err)
		_, err = client.Clinic.Get(t.Context())
		require.NoError(t, err)
		f.connectElsewhere(t, "a-0", f.clinics[1])
		before := len(f.platform.Patients.All())
		_, err = client.Clinic.Patients.Create(t.Context(), clinic.PatientCreate{FirstName: "Pat", LastName: "Example", Email: "pat@example.com"})
		require.ErrorIs(t, err, api.ErrAccountChanged)
		assert.ErrorIs(t, err, api.ErrNotApplied)
		assert.Len(t, f.platform.Patients.All(), before)
	})
}

// Without the scope clinic:read, the accounts cannot ask whether the platform accepts other users.
func TestRevokedUserNeedsNoClinicScope(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newClinicsFixture(t, nil)
		for _, user := range []string{"a-0", "b-0"} {
			key := f.conns(t).Key(user)
			record, err := f.store.Load(t.Context(), key)
			require.NoError(t, err)
			record.Token.Scope = "patients:read catalog:read"
			_, err = f.store.Save(t.Context(), key, record.Token)
			require.NoError(t, err)
			client, err := f.accounts.Client(t.Context(), user)
			require.NoError(t, err)
			time.Sleep(31 * time.Second) // until the process reads the record
			_, err = client.Clinic.Patients.List().Page(t.Context())
			require.NoError(t, err)
		}
		f.revoke(t, "a-0")
		client, err := f.accounts.Client(t.Context(), "a-0")
		require.NoError(t, err)
		_, err = client.Clinic.Patients.List().Page(t.Context())
		require.ErrorIs(t, err, dispensary.ErrReauthorize)
	})
}
