package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// ensured is a platform with one kind of record. Its create calls fail before they are
// applied.
type ensured struct {
	failures []error // of the create calls in order, nil for success
	appears  int     // number of further searches until the record of a failed call appears, 0 for never
	blind    bool    // searches after a create call fail
	hidden   bool    // searches do not show the record
	stored   string  // metadata id of the record instead of "k"
	creates  int
	finds    int
	record   *thing
}

func (e *ensured) run(ctx context.Context, client *Client) (*thing, bool, error) {
	platform := Ensuring[thing]{
		Call: Call{Operation: operation.TreatmentPlanCreate}, ID: "k",
		IDs: func(thing *thing) (id, metadataID string) { return thing.ID, cmp.Or(e.stored, "k") },
		Find: func(context.Context) (*thing, error) {
			e.finds++
			if e.blind && e.creates > 0 {
				return nil, responded(500, platformBody)
			}
			if e.creates > 0 && e.appears > 0 {
				if e.appears--; e.appears == 0 {
					e.record = &thing{ID: "late"}
				}
			}
			if e.hidden {
				return nil, nil
			}
			return e.record, nil
		},
		Get: func(_ context.Context, id string) (*thing, error) {
			if e.record == nil || e.record.ID != id {
				return nil, &api.Error{StatusCode: 404}
			}
			return e.record, nil
		},
		create: func(context.Context) (*thing, error) {
			e.creates++
			if err := e.failures[min(e.creates, len(e.failures))-1]; err != nil {
				return nil, err
			}
			e.record = &thing{ID: fmt.Sprint("made-", e.creates)}
			return e.record, nil
		},
	}
	return platform.run(ctx, client)
}

// responded is the error of a create call that may have been applied and got a response.
func responded(status int, body string) error {
	return apikit.NewError(api.Error{Method: http.MethodPost, StatusCode: status, Outcome: api.OutcomeMaybeApplied}, nil, []byte(body), nil)
}

const (
	platformBody = `{"status":500,"error":"Internal Server Error"}`
	gatewayBody  = `<html><body>Bad gateway</body></html>`
)

func TestEnsureCreatesAtMostOnce(t *testing.T) {
	t.Parallel()
	lost := &api.Error{Method: http.MethodPost, Outcome: api.OutcomeMaybeApplied}
	unsent := &api.Error{Method: http.MethodPost, Outcome: api.OutcomeNotSent}
	invalid := &api.Error{Method: http.MethodPost, StatusCode: 422, Outcome: api.OutcomeNotApplied}
	foreign := &api.Error{Method: http.MethodPost, StatusCode: 422, Outcome: api.OutcomeMaybeApplied, Untrusted: true}
	tests := map[string]struct {
		platform ensured
		creates  int
		id       string
		err      error
	}{
		"created immediately":               {ensured{failures: []error{nil}}, 1, "made-1", nil},
		"server error, appears immediately": {ensured{failures: []error{responded(500, platformBody)}, appears: 1}, 1, "late", nil},
		"server error, never appears":       {ensured{failures: []error{responded(500, platformBody), nil}}, 1, "", api.ErrMaybeApplied},
		"server error, search fails":        {ensured{failures: []error{responded(500, platformBody), nil}, blind: true}, 1, "", api.ErrMaybeApplied},
		"unavailable, sender unknown":       {ensured{failures: []error{responded(503, platformBody), nil}}, 1, "", api.ErrMaybeApplied},
		"gateway timeout":                   {ensured{failures: []error{responded(504, ""), nil}}, 1, "", api.ErrMaybeApplied},
		"status of a gateway":               {ensured{failures: []error{responded(524, gatewayBody), nil}}, 1, "", api.ErrMaybeApplied},
		"response lost, appears late":       {ensured{failures: []error{lost}, appears: 3}, 1, "late", nil},
		"response lost, never appears":      {ensured{failures: []error{lost, nil}}, 1, "", api.ErrMaybeApplied},
		"invalid, sender unknown":           {ensured{failures: []error{foreign, nil}}, 1, "", api.ErrMaybeApplied},
		"never sent":                        {ensured{failures: []error{unsent, nil}}, 1, "", api.ErrNotSent},
		"rejected":                          {ensured{failures: []error{invalid, nil}}, 1, "", api.ErrValidation},
		"rejected, created by another":      {ensured{failures: []error{invalid}, appears: 1}, 1, "late", nil},
		"created, response without record":  {ensured{failures: []error{responded(201, `{"treatment_plan":null}`)}, appears: 1}, 1, "late", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				got, _, err := test.platform.run(t.Context(), newTestClient(t, &responder{}))
				assert.Equal(t, test.creates, test.platform.creates)
				if test.err != nil {
					require.ErrorIs(t, err, test.err)
					var unknown *api.EnsureError
					assert.Equal(t, test.err == api.ErrMaybeApplied, errors.As(err, &unknown) && unknown.Reason == api.EnsureReasonUnknown)
					return
				}
				require.NoError(t, err)
				assert.Equal(t, test.id, got.ID)
			})
		})
	}
}

func TestCanceledEnsureReportsUnknownOutcome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		platform := &ensured{failures: []error{&api.Error{Method: http.MethodPost, Outcome: api.OutcomeMaybeApplied}}}
		_, _, err := platform.run(ctx, newTestClient(t, &responder{}))
		var unknown *api.EnsureError
		require.ErrorAs(t, err, &unknown)
		assert.Equal(t, api.EnsureReasonUnknown, unknown.Reason)
		assert.ErrorIs(t, err, api.ErrMaybeApplied)
	})
}

// A lookup may show a record some time after its creation.
func TestEnsureRemembersCreatedRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		platform, client := &ensured{failures: []error{nil}, hidden: true}, newTestClient(t, &responder{})
		as := func(account api.Account) {
			client = view(t, client, func(c *Config) { c.Tokens = &moving{accounts: []api.Account{account}} })
		}
		as(jane)
		ensure := func(id string, created bool) {
			t.Helper()
			got, made, err := platform.run(t.Context(), client)
			require.NoError(t, err)
			assert.Equal(t, id, got.ID)
			assert.Equal(t, created, made)
		}
		ensure("made-1", true)
		time.Sleep(time.Hour)
		ensure("made-1", false)
		colleague := api.Account{OwnerType: "Practitioner", OwnerID: "3", ClinicID: jane.ClinicID}
		as(colleague)
		ensure("made-1", false)

		platform.record = nil // deleted
		ensure("made-2", true)
		platform.stored = "other" // an update has moved the metadata id to another record
		_, _, err := platform.run(t.Context(), client)
		require.Error(t, err, "the platform alters the metadata id of the third record")
		assert.Equal(t, 3, platform.creates)
	})
}

func TestEnsureCreatesAlteredRecordOnce(t *testing.T) {
	t.Parallel()
	platform, client := &ensured{failures: []error{nil}, hidden: true, stored: "K"}, newTestClient(t, &responder{})
	for range 3 {
		_, _, err := platform.run(t.Context(), client)
		var altered *api.EnsureError
		require.ErrorAs(t, err, &altered)
		assert.Equal(t, api.EnsureError{Operation: "treatment_plans.create", Reason: api.EnsureReasonAltered, IDs: []string{"made-1"}}, *altered)
	}
	assert.Equal(t, 1, platform.creates)
}

func TestUnclearCreateIsNotRepeatedSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := &api.Error{Method: http.MethodPost, Outcome: api.OutcomeMaybeApplied}
		platform, client := &ensured{failures: []error{lost, nil}}, newTestClient(t, &responder{})
		for range 2 {
			_, _, err := platform.run(t.Context(), client)
			require.ErrorIs(t, err, api.ErrMaybeApplied)
		}
		assert.Equal(t, 1, platform.creates)
		time.Sleep(unknownFor)
		_, created, err := platform.run(t.Context(), client)
		require.NoError(t, err)
		assert.True(t, created)
	})
}

func TestEnsuredRecordsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var records ensuredRecords
		key := func(n int) []ensureKey { return []ensureKey{{id: fmt.Sprint(n)}} }
		for n := range maxEnsured + 10 {
			records.add(key(n), ensuredRecord{id: "x"})
		}
		assert.Len(t, records.records, maxEnsured)
		_, ok := records.find(key(9))
		assert.False(t, ok)
		_, ok = records.find(key(10))
		assert.True(t, ok)
		time.Sleep(ensuredFor)
		_, ok = records.find(key(10))
		assert.False(t, ok)
		records.add(key(0), ensuredRecord{id: "x"})
		assert.Len(t, records.records, 1)
		assert.Len(t, records.order, 1)
	})
}

// The clinics of two users may be unknown, and become known later.
func TestEnsureSeparatesUnknownClinics(t *testing.T) {
	t.Parallel()
	client := newTestClient(t, &responder{})
	as := func(account api.Account, secret string) *Client {
		view, err := client.With(func(c *Config) error {
			token := validToken()
			token.Secret, token.Account = api.NewSecret(secret), account
			c.Tokens = static{token}
			return nil
		})
		require.NoError(t, err)
		return view
	}
	for name, pair := range map[string][2]*Client{
		"owners": {as(homeless, "a"), as(api.Account{OwnerType: "Practitioner", OwnerID: "2"}, "b")},
		"tokens": {as(api.Account{}, "a"), as(api.Account{}, "b")},
	} {
		mine, other := &ensured{failures: []error{nil}, hidden: true}, &ensured{failures: []error{nil}, hidden: true}
		for range 2 {
			_, _, err := mine.run(t.Context(), pair[0])
			require.NoError(t, err, name)
			_, _, err = other.run(t.Context(), pair[1])
			require.NoError(t, err, name)
		}
		assert.Equal(t, 1, mine.creates, name)
		assert.Equal(t, 1, other.creates, name)
	}

	platform := &ensured{failures: []error{nil}, hidden: true}
	for _, view := range []*Client{as(api.Account{OwnerType: "Practitioner", OwnerID: "3"}, "c"), as(api.Account{OwnerType: "Practitioner", OwnerID: "3", ClinicID: jane.ClinicID}, "d")} {
		_, _, err := platform.run(t.Context(), view)
		require.NoError(t, err)
	}
	assert.Equal(t, 1, platform.creates, "the clinic became known between the calls")
}

// Two clinics may use the same metadata id. Practitioners of one clinic share its records.
func TestEnsureWaitsOnlyWithinClinic(t *testing.T) {
	t.Parallel()
	as := func(account api.Account) func(*Config) {
		return func(c *Config) { c.Tokens = &moving{accounts: []api.Account{account}} }
	}
	keyed := func(key string) func(*Config) { return func(c *Config) { c.ClinicKey = api.NewSecret(key) } }
	unknown := func(*Config) {}
	colleague := api.Account{OwnerType: "Practitioner", OwnerID: "3", ClinicID: jane.ClinicID}
	for name, test := range map[string]struct {
		first, second func(*Config)
		waits         bool
	}{
		"colleagues":       {as(jane), as(colleague), true},
		"other clinic":     {as(jane), as(john), false},
		"same clinic key":  {keyed("a"), keyed("a"), true},
		"other clinic key": {keyed("a"), keyed("b"), false},
		"unknown clinics":  {unknown, unknown, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := newTestClient(t, &responder{})
				view := func(change func(*Config)) *Client {
					view, err := client.With(func(c *Config) error { change(c); return nil })
					require.NoError(t, err)
					return view
				}
				hang := Ensuring[thing]{Call: Call{Operation: operation.TreatmentPlanCreate}, ID: "k", Find: func(ctx context.Context) (*thing, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}}
				hanging, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { _, _, _ = hang.run(hanging, view(test.first)) }()
				synctest.Wait()
				ctx, end := context.WithTimeout(t.Context(), time.Second)
				defer end()
				_, _, err := (&ensured{failures: []error{nil}}).run(ctx, view(test.second))
				assert.Equal(t, test.waits, errors.Is(err, context.DeadlineExceeded))
				cancel()
			})
		})
	}
}

func TestKeyedLockAdmitsOneCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lock keyedLock
		var inside, most int
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				unlock, err := lock.lock(t.Context(), ensureKey{id: "a"})
				assert.NoError(t, err)
				inside++
				most = max(most, inside)
				time.Sleep(time.Second)
				inside--
				unlock()
			})
		}
		synctest.Wait()
		unlock, err := lock.lock(t.Context(), ensureKey{id: "b"})
		require.NoError(t, err, "another key is free")
		unlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		_, err = lock.lock(ctx, ensureKey{id: "a"})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		group.Wait()
		assert.Equal(t, 1, most)
		assert.Empty(t, lock.held, "unused keys are deleted")
	})
}
