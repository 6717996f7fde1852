package transport

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apierror"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// ensured is a platform with one kind of record. Its create calls fail before they are
// applied.
type ensured struct {
	failures []error // of the create calls in order, nil for success
	appears  int     // number of further searches until the record of a failed call appears, 0 for never
	blind    bool    // searches after a create call fail
	creates  int
	finds    int
	record   *thing
}

func (e *ensured) run(t *testing.T, ctx context.Context) (*thing, bool, error) {
	t.Helper()
	client := newTestClient(t, &answers{})
	platform := ensuring[thing]{
		operation: operation.TreatmentPlanCreate, key: "k", ids: thingIDs,
		find: func(context.Context) (*thing, error) {
			e.finds++
			if e.blind && e.creates > 0 {
				return nil, answered(500, platformBody)
			}
			if e.creates > 0 && e.appears > 0 {
				if e.appears--; e.appears == 0 {
					e.record = &thing{ID: "late"}
				}
			}
			return e.record, nil
		},
		create: func(context.Context) (*thing, error) {
			e.creates++
			if err := e.failures[min(e.creates, len(e.failures))-1]; err != nil {
				return nil, err
			}
			e.record = &thing{ID: "made"}
			return e.record, nil
		},
	}
	return platform.run(ctx, client)
}

// thingIDs returns the ids of a thing with the metadata id "k".
func thingIDs(thing *thing) (id, key string) { return thing.ID, "k" }

// answered is the error of a create call that may have been applied and got a response.
func answered(status int, body string) error {
	return apierror.New(api.Error{Method: http.MethodPost, StatusCode: status, Outcome: api.OutcomeMaybeApplied}, nil, []byte(body), nil)
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
		"created immediately":               {ensured{failures: []error{nil}}, 1, "made", nil},
		"server error, appears immediately": {ensured{failures: []error{answered(500, platformBody)}, appears: 1}, 1, "late", nil},
		"server error, never appears":       {ensured{failures: []error{answered(500, platformBody), nil}}, 1, "", api.ErrMaybeApplied},
		"server error, search fails":        {ensured{failures: []error{answered(500, platformBody), nil}, blind: true}, 1, "", api.ErrMaybeApplied},
		"unavailable, sender unknown":       {ensured{failures: []error{answered(503, platformBody), nil}}, 1, "", api.ErrMaybeApplied},
		"gateway timeout":                   {ensured{failures: []error{answered(504, ""), nil}}, 1, "", api.ErrMaybeApplied},
		"status of a gateway":               {ensured{failures: []error{answered(524, gatewayBody), nil}}, 1, "", api.ErrMaybeApplied},
		"response lost, appears late":       {ensured{failures: []error{lost}, appears: 3}, 1, "late", nil},
		"response lost, never appears":      {ensured{failures: []error{lost, nil}}, 1, "", api.ErrMaybeApplied},
		"invalid, sender unknown":           {ensured{failures: []error{foreign, nil}}, 1, "", api.ErrMaybeApplied},
		"never sent":                        {ensured{failures: []error{unsent, nil}}, 1, "", api.ErrNotSent},
		"rejected":                          {ensured{failures: []error{invalid, nil}}, 1, "", api.ErrValidation},
		"rejected, created by another":      {ensured{failures: []error{invalid}, appears: 1}, 1, "late", nil},
		"created, response without record":  {ensured{failures: []error{answered(201, `{"treatment_plan":null}`)}, appears: 1}, 1, "late", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				got, _, err := test.platform.run(t, t.Context())
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
		_, _, err := platform.run(t, ctx)
		var unknown *api.EnsureError
		require.ErrorAs(t, err, &unknown)
		assert.Equal(t, api.EnsureReasonUnknown, unknown.Reason)
		assert.ErrorIs(t, err, api.ErrMaybeApplied)
	})
}

func TestKeyedLockAdmitsOneCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lock keyedLock
		var inside, most int
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				unlock, err := lock.lock(t.Context(), "a")
				assert.NoError(t, err)
				inside++
				most = max(most, inside)
				time.Sleep(time.Second)
				inside--
				unlock()
			})
		}
		synctest.Wait()
		unlock, err := lock.lock(t.Context(), "b")
		require.NoError(t, err, "another key is free")
		unlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		_, err = lock.lock(ctx, "a")
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		group.Wait()
		assert.Equal(t, 1, most)
		assert.Empty(t, lock.held, "unused keys are deleted")
	})
}
