package dispensarytest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// ida is a patient to create.
var ida = dispensary.RawRequest{Method: "POST", Path: "/clinic/patients", Body: map[string]string{
	"first_name": "Ida", "last_name": "Moor", "email": "ida@example.org",
}}

// meeting runs the module's own client against a platform with one fault. In a
// bubble its waits between attempts take no time.
func meeting(t *testing.T, f model.Fault, run func(t *testing.T, fake *dispensarytest.Server, client *dispensary.Client, fault *dispensarytest.FaultHandle)) {
	t.Run(f.String(), func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			fake := dispensarytest.New(t, dispensarytest.WithInMemory())
			run(t, fake, fake.Client(model.User{}), fake.Fault(f))
		})
	})
}

func TestClientMeetsFaults(t *testing.T) {
	t.Parallel()
	get := func(client *dispensary.Client) error {
		_, err := client.Clinic.Get(context.Background())
		return err
	}
	for _, f := range []model.Fault{
		{Effect: model.ErrorStatus, Status: 503}, {Effect: model.DropBeforeCommit}, {Effect: model.DropAfterCommit},
		{Effect: model.TooManyRequests, RetryAfter: 2 * time.Second}, {Effect: model.ProxyError},
	} {
		f.Times = 1
		meeting(t, f, func(t *testing.T, fake *dispensarytest.Server, client *dispensary.Client, fault *dispensarytest.FaultHandle) {
			began := time.Now()
			require.NoError(t, get(client), "a GET is tried again")
			assert.Equal(t, 1, fault.Fired())
			assert.Equal(t, 2, fake.Journal().Len())
			assert.GreaterOrEqual(t, time.Since(began), f.RetryAfter)
		})
	}
}

// What the client makes of faults that it cannot make good.
func TestClientReportsFaults(t *testing.T) {
	t.Parallel()
	get := func(ctx context.Context, client *dispensary.Client) error {
		_, err := client.Clinic.Get(ctx)
		return err
	}
	create := func(ctx context.Context, client *dispensary.Client) error {
		_, err := client.Do(ctx, ida)
		return err
	}
	for _, c := range []struct {
		fault    model.Fault
		call     func(context.Context, *dispensary.Client) error
		want     error // nil is any
		patients int
	}{
		{model.Fault{Operation: "patients.create", Effect: model.DropAfterCommit}, create, dispensary.ErrMaybeApplied, 6},
		{model.Fault{Operation: "patients.create", Effect: model.TruncatedBody, Times: 1}, create, nil, 6},
		{model.Fault{Effect: model.TokenInvalidated, Times: 1}, get, dispensary.ErrUnauthorized, 5},
		{model.Fault{Effect: model.Latency, Delay: time.Hour}, get, context.DeadlineExceeded, 5},
	} {
		meeting(t, c.fault, func(t *testing.T, fake *dispensarytest.Server, client *dispensary.Client, _ *dispensarytest.FaultHandle) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			began := time.Now()
			err := c.call(ctx, client)
			require.Error(t, err)
			assert.NotContains(t, err.Error(), "Ida")
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
			assert.Len(t, fake.Patients.All(), c.patients, "what was dropped after the commit was created")
			assert.LessOrEqual(t, len(fake.Journal().Of("patients.create")), 1, "a write is not tried again")
			assert.Equal(t, c.fault.Effect == model.Latency, time.Since(began) == 5*time.Second, "only latency is waited for")
		})
	}
}
