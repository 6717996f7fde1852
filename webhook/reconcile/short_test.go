package reconcile_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/webhook"
)

// newReceivingFixture makes clinics whose webhooks arrive.
func newReceivingFixture(t *testing.T, clinics int) *clinicsFixture {
	t.Helper()
	f := newClinicsFixture(t, clinics)
	f.lost.Remove()
	app := f.platform.Application()
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: f.environment, Secrets: []api.Secret{api.NewSecret(app.WebhookSecret)}, Challenge: api.NewSecret(app.ChallengeToken),
		Inbox: f.inbox, AcceptTimeout: patient,
	})
	require.NoError(t, err)
	require.NoError(t, f.platform.Webhooks.RegisterHandler(handler))
	return f
}

// register registers a patient with a clinic, and returns the event.
func (f *clinicsFixture) register(t *testing.T, clinic string) string {
	t.Helper()
	_, e, err := f.platform.Patients.Register(model.NewPatient{ClinicID: clinic})
	require.NoError(t, err)
	synctest.Wait() // until its webhook is sent
	return e.ID
}

// registerUnsent registers a patient, and no attempt is made to send the webhook.
func (f *clinicsFixture) registerUnsent(t *testing.T, clinic string) string {
	t.Helper()
	lost := f.platform.Fault(model.Fault{Effect: model.DeliveryLost})
	defer lost.Remove()
	return f.register(t, clinic)
}

// refuse has the receiver refuse all webhooks from now on.
func (f *clinicsFixture) refuse() (stop func()) {
	return f.platform.Fault(model.Fault{Effect: model.DeliveryForged}).Remove
}

// kinds says of each clinic which runs were whole (w) and which were short (s), since the
// last call.
func (f *clinicsFixture) kinds() (all []string) {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, clinic := range f.clinics {
		kinds := ""
		for _, report := range f.runs[clinic] {
			kinds += map[bool]string{true: "s", false: "w"}[report.Short]
		}
		all = append(all, kinds)
		f.runs[clinic] = nil
	}
	return all
}

// pages counts the pages that were read of a clinic.
func (f *clinicsFixture) pages(clinic string) (n int) {
	for _, r := range f.platform.Journal().Requests() {
		if f.clinicOf[r.UserID] == clinic && (strings.HasPrefix(r.Operation, "events.list") || r.Operation == "webhook_deliveries.list") {
			n++
		}
	}
	return n
}

func (f *clinicsFixture) wasHandled(event string) bool {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.handled[event] == 1
}

// Where nothing is missing, a clinic takes one call a run, and those of a whole run a day.
func TestRunsAreShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newReceivingFixture(t, 3)
		f.reconcileAll(t, time.Hour, nil)
		day := "w" + strings.Repeat("s", 23)
		for range 2 {
			time.Sleep(90 * time.Minute)
			first := f.register(t, f.clinics[0])
			assert.True(t, f.wasHandled(first), "by its webhook")
			time.Sleep(24*time.Hour - 90*time.Minute - time.Second)
			assert.Equal(t, []string{day, day, day}, f.kinds())
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		f.platform.Journal().Reset()
		time.Sleep(24 * time.Hour)
		for _, clinic := range f.clinics {
			assert.Equal(t, 23*1+1*pagesOfARun, f.pages(clinic))
		}
	})
}

// One delivery that failed is evidence: what the platform did not even try to send is found
// with it. Without any it is found by the next whole run.
func TestShortRunFindsWhatTheLogHas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newReceivingFixture(t, 2)
		f.reconcileAll(t, time.Hour, nil)
		time.Sleep(30 * time.Minute)
		assert.Equal(t, []string{"w", "w"}, f.kinds())
		unsent, alone := f.registerUnsent(t, f.clinics[0]), f.registerUnsent(t, f.clinics[1])
		accept := f.refuse()
		refused := f.register(t, f.clinics[0])
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"w", "s"}, f.kinds())
		assert.True(t, f.wasHandled(refused))
		assert.True(t, f.wasHandled(unsent))
		assert.False(t, f.wasHandled(alone))
		time.Sleep(8 * time.Hour) // the attempts go on, and all of them fail
		assert.Equal(t, []string{"wwwwwwww", "ssssssss"}, f.kinds(), "no webhook has arrived since the recovery")
		accept()
		f.register(t, f.clinics[0])
		time.Sleep(15 * time.Hour)
		assert.Equal(t, []string{"wssssssssssssss", "ssssssssssssssw"}, f.kinds())
		assert.True(t, f.wasHandled(alone))
	})
}

// What gets through with a later attempt is no reason for a whole run.
func TestShortRunWhereALaterAttemptSucceeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newReceivingFixture(t, 1)
		f.reconcileAll(t, time.Hour, nil)
		time.Sleep(30 * time.Minute)
		accept := f.refuse()
		late := f.register(t, f.clinics[0])
		accept()
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"ws"}, f.kinds())
		assert.True(t, f.wasHandled(late))
	})
}
