package console

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/control"
)

// Every button does what it says, and the page it comes back to says how a program
// does the same.
func TestButtons(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p := d.fake.Platform()
	page := d.press("world", "Order")
	assert.Contains(t, page, `<p role="status"><b>Done.</b>`)
	assert.Contains(t, page, "fake.Platform().PlaceOrder(")
	assert.Contains(t, page, "/control/patients/"+p.Orders()[len(p.Orders())-1].PatientID+"/orders")
	assert.Equal(t, dispensarytest.OrderPlaced, p.Events()[0].Type)

	d.press("world", "Register a patient")
	d.press("world", "Write a plan")
	d.press("world", "Cancel")
	d.press("world", "Refund")
	d.press("world", "Revoke")
	d.press("world", "Take back")
	var kinds []string
	for _, e := range p.Events()[1:] {
		kinds = append(kinds, e.Type)
	}
	assert.Equal(t, []string{"patient.created", "treatment_plan.created", "treatment_plan.updated", "clinic_key.revoked", "clinic_key.activated"}, kinds)

	d.press("tokens", "Issue a token for")
	d.press("tokens", "Let it expire")
	d.sees("tokens", "expired")
	d.press("tokens", "Invalidate all")
	d.sees("tokens", "invalidated")
	d.fake.Fault(dispensarytest.Fault{Effect: dispensarytest.DropAfterCommit})
	d.press("faults", "Remove<")
	assert.Empty(t, d.fake.Faults())
	d.press("silences", "before-each")
	assert.Equal(t, "before-each", d.fake.Readings()[dispensarytest.SilenceProbe])
	assert.Contains(t, d.press("requests", "Find what the API does not have"), "&#34;passed&#34;: true")
	now := d.fake.Clock().Now()
	d.press("clock", "2 hours")
	assert.Equal(t, now.Add(2*time.Hour), d.fake.Clock().Now())
	d.press("", "Reset the platform")
	assert.Empty(t, p.Events())
}

func TestADisabledEndpointIsEnabled(t *testing.T) {
	t.Parallel()
	d := newDesk(t, dispensarytest.WithUnconditionalDelivery())
	require.NoError(t, d.fake.RegisterWebhookHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusGone)
	})))
	d.press("world", "Order")
	d.fake.Clock().Advance(0)
	d.sees("deliveries", "The endpoint is disabled: it answered 410.")
	assert.NotContains(t, d.press("deliveries", "Enable the endpoint"), "is disabled")
	endpoint, _ := d.fake.Webhook()
	assert.False(t, endpoint.Disabled)
}

// An action that takes a file takes it from the form.
func TestAFileIsUploaded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var saved bytes.Buffer
	require.NoError(t, d.fake.Save(&saved))
	d.press("world", "Order")
	d.sees("actions/state.load", `enctype="multipart/form-data"`, `type="file"`, "curl -T file ")
	upload := func(field string, content []byte) int {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		part, err := form.CreateFormFile(field, "state.json")
		require.NoError(t, err)
		_, err = part.Write(content)
		require.NoError(t, err)
		require.NoError(t, form.Close())
		status, _ := d.read(http.Post(d.url+"actions/state.load", form.FormDataContentType(), &body))
		return status
	}
	assert.Equal(t, http.StatusUnprocessableEntity, upload("file", []byte("{}")))
	assert.Equal(t, http.StatusNotFound, upload("another", saved.Bytes()))
	assert.Len(t, d.fake.Platform().Events(), 1)
	assert.Equal(t, http.StatusOK, upload("file", saved.Bytes()))
	assert.Empty(t, d.fake.Platform().Events())
}

// What is done redirects, so that reloading does not do it again; what is refused
// shows its form with what was entered.
func TestDoingRedirects(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	send := func(id string, fields url.Values) (status int, to string) {
		answer, err := client.PostForm(d.url+"actions/"+id, fields)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode, answer.Header.Get("Location")
	}
	for returning, want := range map[string]string{
		"deliveries": "../deliveries?did=", "": "../?did=", "https://evil.example.com/": "./clock.advance?did=",
	} {
		status, to := send("clock.advance", url.Values{"body.by": {"1m"}, "return": {returning}})
		assert.Equal(t, http.StatusSeeOther, status)
		assert.Contains(t, to, want)
	}
	status, to := send("clock.advance", url.Values{"body.by": {"soon"}, "return": {"clock"}})
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	assert.Empty(t, to)
	status, to = send("clock.advance", url.Values{"body.to": {"2026-03-02T08:00:00Z"}})
	assert.Equal(t, http.StatusSeeOther, status, "what was due when the button was shown is due no longer")
	d.sees("actions/"+to[2:], "Do it again", `value="2026-03-02T09:03:00Z"`)
	assert.NotContains(t, d.sees("actions/faults.clear"+to[len("./clock.advance"):]), "again", "another action's")
}

func TestOutcomesAreForgotten(t *testing.T) {
	t.Parallel()
	var o outcomes
	for i := range 100 {
		assert.Equal(t, strconv.Itoa(i+1), o.keep(actionView{Status: i + 1}))
	}
	for name, want := range map[string]int{"100": 100, "37": 37, "36": 0, "0": 0, "101": 0, "-1": 0, "": 0} {
		if found := o.find(name); want > 0 {
			assert.Equal(t, want, found.Status)
		} else {
			assert.Nil(t, found, name)
		}
	}
}

func TestFormsOfferChoices(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	patient := d.fake.Platform().Patients()[0]
	d.sees("actions/platform.place_order", `list="patient_id-choices"`, `<option value="`+patient.ID+`">Jane Doe</option>`)
	d.sees("actions/faults.set", `<option value="drop_after_commit">`, `<option value="order.placed">`)
	fault := d.fake.Fault(dispensarytest.Fault{Effect: dispensarytest.DropAfterCommit})
	d.sees("actions/faults.remove", `<option value="`+fault.ID()+`">`)
	d.sees("actions/tokens.issue", `<option value="`+d.fake.Users()[0].Email+`">`)
	d.sees("actions/silences.set", `<option value="probe">`)
	for field, ids := range map[string]string{
		"key": d.fake.ClinicKey(), "order_id": d.fake.Platform().Orders()[0].ID, "plan_id": d.fake.Platform().Plans()[0].ID,
		"practitioner_id": d.fake.Platform().Practitioners()[0].ID, "product_id": d.fake.Platform().Products()[0].ID,
	} {
		var values []string
		for _, c := range New(d.fake, control.New(d.fake, control.Options{})).choices(field) {
			values = append(values, c.Value)
		}
		assert.Contains(t, values, ids, field)
	}
}

// A page that names an operation which is not there cannot be shown.
func TestRoomsNameOperations(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, op := range control.Operations() {
		known[op.ID] = true
	}
	d := newDesk(t)
	for _, r := range rooms() {
		for _, id := range r.operations {
			assert.True(t, known[id], id)
			d.sees(r.Path, "<summary>"+id+"</summary>")
		}
	}
}
