package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Every button performs its action. The page after it shows the same action as a command.
func TestButtonsRunOperations(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	p := d.fake
	page := d.press("world", "Order")
	assert.Contains(t, page, `<p role="status"><b>Done.</b>`)
	assert.Contains(t, page, "/control/patients/"+p.Orders.All()[len(p.Orders.All())-1].PatientID+"/orders")
	assert.Equal(t, model.EventOrderPlaced, p.Events()[0].Type)

	d.press("world", "Register a patient")
	d.press("world", "Add a plan")
	d.press("world?kind=plans", "Order")
	orders := p.Orders.All()
	assert.Equal(t, []string{p.Plans.All()[len(p.Plans.All())-1].ID}, orders[len(orders)-1].PlanIDs)
	d.press("world?kind=plans", "Cancel")
	d.press("world?kind=orders", "Refund")
	d.press("world", "Revoke")
	d.press("world", "Activate")
	var kinds []string
	for _, e := range p.Events()[1:] {
		kinds = append(kinds, e.Type)
	}
	assert.Equal(t, []string{"patient.created", "treatment_plan.created", "order.placed", "treatment_plan.updated", "clinic_key.revoked", "clinic_key.activated"}, kinds)

	d.press("tokens", "Issue a token for")
	d.press("tokens", "Expire")
	d.sees("tokens", "expired")
	d.press("tokens", "Issue a token for")
	d.press("tokens", "Revoke")
	d.sees("tokens", "revoked")
	d.press("tokens", "Issue a token for")
	d.press("tokens", "Invalidate all")
	d.sees("tokens", "invalidated")
	d.fake.Fault(model.Fault{Effect: model.EffectDropAfterCommit})
	d.press("faults", "Remove<")
	assert.Empty(t, d.fake.Faults())
	for _, p := range presets {
		page := d.press("faults", p.Label)
		assert.Contains(t, page, `<b>Done.</b>`, p.Label)
		assert.Len(t, d.fake.Faults(), 1, p.Label)
		d.fake.ClearFaults()
	}
	d.press("behaviors", "before-each")
	assert.Contains(t, d.fake.Behaviors(), behavior.ProbeBeforeEach)
	now := d.fake.Clock.Now()
	d.press("clock", "2 hours")
	assert.Equal(t, now.Add(2*time.Hour), d.fake.Clock.Now())
	d.press("", "Reset the platform")
	assert.Empty(t, p.Events())
}

func TestDisabledEndpointIsEnabled(t *testing.T) {
	t.Parallel()
	d := newFixture(t, dispensarytest.WithBehavior(behavior.DeliveryConditionsOff))
	require.NoError(t, d.fake.Webhooks.RegisterHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusGone)
	})))
	d.press("world", "Order")
	d.fake.Clock.Advance(0)
	d.sees("deliveries", "The endpoint is disabled: it responded with 410.")
	assert.NotContains(t, d.press("deliveries", "Enable the endpoint"), "is disabled")
	endpoint, _ := d.fake.Webhooks.Endpoint()
	assert.False(t, endpoint.Disabled)
}

// An action redirects, so that a reload does not repeat it.
func TestActionRedirects(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	send := func(id string, fields url.Values) (status int, to string) {
		answer, err := client.PostForm(d.url+"actions/"+id, fields)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode, answer.Header.Get("Location")
	}
	for returning, want := range map[string]string{
		"deliveries": "../deliveries?did=", "": "../?did=", "https://evil.example.com/": "../?did=",
		"deliveries?q=order&state=failing": "../deliveries?q=order&state=failing&did=",
		"deliveries?q=a%26b&x=y":           "../deliveries?q=a%26b&did=",
		"deliveries?%zz":                   "../?did=",
		"//evil.example.com/?q=x":          "../?did=",
	} {
		status, to := send("clock.advance", url.Values{"body.by": {"1m"}, "return": {returning}})
		assert.Equal(t, http.StatusSeeOther, status)
		assert.True(t, strings.HasPrefix(to, want), to)
	}
	status, to := send("clock.advance", url.Values{"body.by": {"soon"}, "return": {"clock"}})
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	assert.Empty(t, to)
	status, _ = send("clock.advance", url.Values{"body.to": {"2026-03-02T08:00:00Z"}})
	assert.Equal(t, http.StatusSeeOther, status, "the clock has passed the time of the button")
}

func TestOldOutcomesAreRemoved(t *testing.T) {
	t.Parallel()
	var o outcomes
	for i := range 100 {
		assert.Equal(t, strconv.Itoa(i+1), o.keep(outcome{Status: i + 1}))
	}
	for name, want := range map[string]int{"100": 100, "37": 37, "36": 0, "0": 0, "101": 0, "-1": 0, "": 0} {
		if found := o.find(name); want > 0 {
			assert.Equal(t, want, found.Status)
		} else {
			assert.Nil(t, found, name)
		}
	}
}

// The pages list every operation with its command.
func TestPagesListEveryOperation(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	named := map[string]bool{}
	for _, r := range pages() {
		for _, id := range r.operations {
			_, known := operation(id)
			assert.True(t, known, id)
			d.sees(r.Path, "<summary>"+id+"</summary>")
			named[id] = true
		}
	}
	for _, op := range control.Operations() {
		assert.True(t, named[op.ID], op.ID)
	}
}

// A rejection shows its reason and the command.
func TestRejectionShowsReason(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	patient := d.fake.Patients.All()[0].ID
	d.do("platform.place_order", 200, "patient_id", patient)
	assert.Len(t, d.fake.Events(), 1)
	assert.Contains(t, d.do("platform.place_order", 404, "patient_id", "nobody"), "Rejected with status 404")
	assert.Contains(t, d.do("faults.set", 422, "body.effect", "latency", "body.times", "two"), "times must be a whole number")
	page := d.do("webhook.register", 422, "body.url", "<b>")
	assert.NotContains(t, page, "<b>")
	assert.Contains(t, page, "/control/webhook")
	d.do("no.such", 404)
	d.do("patients.list", 404)
}

func TestEndpointIsRegistered(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.sees("deliveries", `action="./actions/webhook.register"`, "Register an endpoint")
	assert.Contains(t, d.do("webhook.register", 200, "return", "deliveries", "body.url", "https://127.0.0.1/webhooks"), "Register another endpoint")
	endpoint, _ := d.fake.Webhooks.Endpoint()
	assert.Equal(t, "https://127.0.0.1/webhooks", endpoint.URL)
}
