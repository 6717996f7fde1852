package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/events"
)

// withControl serves the control API of the fixture's platform.
func (f *fixture) withControl() *fixture {
	f.t.Helper()
	server := httptest.NewServer(http.StripPrefix("/control", control.New(f.platform, control.Options{})))
	f.t.Cleanup(server.Close)
	f.variables[controlVariable] = server.URL + "/control"
	return f
}

func (f *fixture) trigger(args ...string) triggered {
	f.t.Helper()
	var made triggered
	f.document("trigger", &made, args...)
	return made
}

func TestTriggerCreatesEveryEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withControl()
	patient := f.trigger("patient.created", "-f", "first_name=Ada", "-f", "email=ada@example.com").ObjectID
	made, known := f.platform.Patients.Get(patient)
	require.True(t, known)
	assert.Equal(t, "Ada", made.FirstName)
	plan := f.trigger("treatment_plan.created", "--patient", patient).ObjectID
	for _, args := range [][]string{
		{"patient.updated", "--patient", patient}, {"order.placed", "--patient", patient, "--plan", plan},
		{"treatment_plan.updated", "--plan", plan}, {"treatment_plan.recommendation.updated"},
		{"product.created"}, {"product.updated"}, {"product.description.updated"},
		{"clinic_key.revoked"}, {"clinic_key.activated"},
	} {
		made := f.trigger(args...)
		assert.Equal(t, events.Type(args[0]), made.Type)
		last := f.platform.Events()[len(f.platform.Events())-1]
		assert.Equal(t, args[0], last.Type)
		assert.Equal(t, last.ID, made.EventID)
	}
	orders := f.platform.Orders.All()
	assert.Equal(t, []string{plan}, orders[len(orders)-1].PlanIDs)
	assert.Len(t, f.platform.Events(), len(actions))
}

func TestTriggerExplainsMissingWebhook(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withControl()
	require.NoError(t, f.platform.SetBehavior("delivery-conditions=enforced"))
	require.NoError(t, f.platform.Webhooks.Register("http://"+freeAddress(t)+"/webhooks"))
	_, stderr := f.ran("trigger", "order.placed")
	assert.Equal(t, "The platform sends no webhook: no live token of the clinic has the scope patients:order_history. \"dispensary listen\" forwards the event nevertheless.\n", stderr)
	f.withToken()
	_, stderr = f.ran("trigger", "order.placed")
	assert.Empty(t, stderr)
}

func TestTriggerActivatesIntegration(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dispensarytest.WithBehavior("integration-activation=first-key")).withControl()
	require.NoError(t, f.platform.Webhooks.Register("http://"+freeAddress(t)+"/webhooks"))
	_, stderr := f.ran("trigger", "order.placed")
	assert.Contains(t, stderr, "no integration of the clinic is active: ")
	assert.Contains(t, stderr, "dispensary trigger clinic_key.activated")
	for _, kind := range []string{"clinic_key.activated", "order.placed"} {
		_, stderr := f.ran("trigger", kind)
		assert.Empty(t, stderr)
	}
}

func TestTriggerRejectsArguments(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withControl()
	f.refused("trigger needs one event type", "trigger")
	newFixture(t).refused("--control or DISPENSARY_CONTROL_URL is required", "trigger", "order.placed")
	f.refused(`there is no event type "nothing", only clinic_key.activated, `, "trigger", "nothing")
	f.refused("--field must be NAME=TEXT", "trigger", "order.placed", "-f", "x")
	f.refused("--control must be a URL", "trigger", "order.placed", "--control", "localhost")
	f.refused("--control: no control API responds", "trigger", "order.placed", "--control", "http://"+freeAddress(t)+"/control")
	for _, status := range []int{http.StatusOK, http.StatusTeapot} {
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(other.Close)
		code, _, stderr := f.run("trigger", "order.placed", "--control", other.URL)
		assert.Equal(t, exitFailed, code)
		assert.Contains(t, stderr, "--control is not a control API")
		assert.NotContains(t, stderr, "may have been applied", "the request was a read")
	}
	f.fails("--patient: the platform has no patient 999999", "trigger", "order.placed", "--patient", "999999")
	f.fails("the fake platform rejects the action: ", "trigger", "patient.created", "-f", "clinic_id=none")
	code, _, stderr := f.run("trigger", "patient.created", "-f", "canary=1")
	assert.Equal(t, exitFailed, code, stderr)
	assert.Empty(t, f.platform.Events())
}
