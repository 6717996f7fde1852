package console

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Every button does what it says, and the page it comes back to says how a controlCall
// does the same.
func TestButtons(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	p := d.fake
	page := d.press("world", "Order")
	assert.Contains(t, page, `<p role="status"><b>Done.</b>`)
	assert.Contains(t, page, "/control/patients/"+p.Orders.All()[len(p.Orders.All())-1].PatientID+"/orders")
	assert.Equal(t, model.OrderPlaced, p.Events()[0].Type)

	d.press("world", "Register a patient")
	d.press("world", "Write a plan")
	d.press("world?kind=plans", "Cancel")
	d.press("world?kind=orders", "Refund")
	d.press("world", "Revoke")
	d.press("world", "Activate")
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
	d.fake.Fault(model.Fault{Effect: model.DropAfterCommit})
	d.press("faults", "Remove<")
	assert.Empty(t, d.fake.Faults())
	for _, p := range presets {
		page := d.press("faults", p.Label)
		assert.Contains(t, page, `<b>Done.</b>`, p.Label)
		assert.Len(t, d.fake.Faults(), 1, p.Label)
		d.fake.ClearFaults()
	}
	d.press("behaviors", "before-each")
	assert.Contains(t, d.fake.Behaviors(), dispensarytest.ProbeBeforeEach)
	assert.Contains(t, d.press("requests", "Find what the API does not have"), "&#34;passed&#34;: true")
	now := d.fake.Clock().Now()
	d.press("clock", "2 hours")
	assert.Equal(t, now.Add(2*time.Hour), d.fake.Clock().Now())
	d.press("", "Reset the platform")
	assert.Empty(t, p.Events())
}

func TestADisabledEndpointIsEnabled(t *testing.T) {
	t.Parallel()
	d := newFixture(t, dispensarytest.WithBehavior(dispensarytest.DeliveryConditionsOff))
	require.NoError(t, d.fake.Webhooks.RegisterHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusGone)
	})))
	d.press("world", "Order")
	d.fake.Clock().Advance(0)
	d.sees("deliveries", "The endpoint is disabled: it answered 410.")
	assert.NotContains(t, d.press("deliveries", "Enable the endpoint"), "is disabled")
	endpoint, _ := d.fake.Webhooks.Endpoint()
	assert.False(t, endpoint.Disabled)
}

// An action that takes a file takes it from the form.
func TestAFileIsUploaded(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
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
	assert.Len(t, d.fake.Events(), 1)
	assert.Equal(t, http.StatusOK, upload("file", saved.Bytes()))
	assert.Empty(t, d.fake.Events())
}

// What is done redirects, so that reloading does not do it again; what is refused
// shows its form with what was entered.
func TestDoingRedirects(t *testing.T) {
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
	d.sees("actions/"+to[2:], "Advance the clock again", `value="2026-03-02T09:03:00Z"`)
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
	d := newFixture(t)
	patient := d.fake.Patients.All()[0]
	d.sees("actions/platform.place_order", `<label for="patient_id">Patient</label>`, `<select id="patient_id" name="patient_id" required>`, `<option value="`+patient.ID+`">Jane Doe</option>`)
	d.sees("actions/platform.place_order?patient_id=gone", `<option value="gone" selected>gone</option>`)
	d.sees("actions/faults.set?body.effect=delivery_lost", `<option value="drop_after_commit">`, `<option value="order.placed">`)
	d.sees("actions/platform.register_patient", `<select id="body.gender"`, `<option value="x">X</option>`, `name="body.date_of_birth" value="" autocomplete="off" type="date"`)
	d.sees("actions/platform.create_plan", ">Product 3</label>", `name="body.recommendations.2.units"`)
	plan := d.fake.Plans.All()[0]
	of, known := d.fake.Patients.Get(plan.PatientID)
	require.True(t, known)
	d.sees("actions/platform.cancel_plan", `<option value="`+plan.ID+`">`+plan.State+", "+nameOf(of)+", "+plan.CreatedAt.UTC().Format(time.DateOnly)+"</option>")
	d.sees("actions/platform.refund_order", ", Jane Doe, 20")
	fault := d.fake.Fault(model.Fault{Effect: model.DropAfterCommit})
	d.sees("actions/faults.remove", `<option value="`+fault.ID()+`">`)
	d.sees("actions/tokens.issue", `<option value="`+d.fake.Users()[0].Email+`">`)
	d.sees("actions/behaviors.set", `<option value="probe">`)
	for field, ids := range map[string]string{
		"key": d.fake.ClinicKey(), "order_id": d.fake.Orders.All()[0].ID, "plan_id": d.fake.Plans.All()[0].ID,
		"variant_id": d.fake.Products.All()[0].VariantIDs[0], "practitioner_id": d.fake.Clinics.Practitioners()[0].ID, "product_id": d.fake.Products.All()[0].ID,
	} {
		var values []string
		for _, c := range New(d.fake, control.New(d.fake, control.Options{})).choices(field) {
			values = append(values, c.Value)
		}
		assert.Contains(t, values, ids, field)
	}
}

// What a list can hold is checked, and what was checked stays so.
func TestFormsOfferSeveral(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	p := d.fake
	box := func(field, value, label, attribute string) string {
		return `<label class="check"><input type="checkbox" name="body.` + field + `" value="` + value + `"` + attribute + `> ` + label + `</label>`
	}
	patient := p.Patients.All()[0]
	first, _, err := p.Plans.Create(patient.ID, model.NewPlan{})
	require.NoError(t, err)
	second, _, err := p.Plans.Create(patient.ID, model.NewPlan{})
	require.NoError(t, err)
	label := "active, " + nameOf(patient) + ", " + first.CreatedAt.UTC().Format(time.DateOnly)
	d.sees("actions/platform.place_order", "<legend>Plans</legend>", box("plan_ids", first.ID, label, ""))
	d.sees("actions/platform.place_order?body.plan_ids=gone&body.plan_ids="+second.ID, box("plan_ids", second.ID, label, " checked"), box("plan_ids", "gone", "gone", " checked"))
	page := d.do("platform.place_order", http.StatusOK, "patient_id", patient.ID, "body.plan_ids", first.ID, "body.plan_ids", second.ID)
	assert.Contains(t, page, box("plan_ids", first.ID, label, " checked"))
	orders := p.Orders.All()
	assert.ElementsMatch(t, []string{first.ID, second.ID}, orders[len(orders)-1].PlanIDs)

	d.sees("actions/webhook.register", "<legend>Types</legend>", box("types", model.OrderPlaced, model.OrderPlaced, ""))
	d.do("webhook.register", http.StatusOK, "body.url", "https://127.0.0.1/webhooks", "body.types", model.OrderPlaced, "body.types", model.PatientCreated)
	endpoint, _ := p.Webhooks.Endpoint()
	assert.ElementsMatch(t, []string{model.OrderPlaced, model.PatientCreated}, endpoint.Types)

	d.sees("actions/application.extend_scopes", "<legend>Scopes</legend>", box("scopes", "patients:read", "patients:read", ""))
	d.do("tokens.issue", http.StatusOK, "body.scopes", "patients:read", "body.scopes", "catalog:read")
	issued := p.Tokens.Credentials()
	assert.ElementsMatch(t, []string{"catalog:read", "patients:read"}, issued[len(issued)-1].Scopes)

	d.do("faults.set", http.StatusOK, "body.effect", "error_status", "body.status", "422", "body.messages", "is not valid, there is none")
	assert.Equal(t, []string{"is not valid", "there is none"}, p.Faults()[0].Fault().Messages)
}

// In a large world an id is entered; names are proposed.
func TestFormsOfALargeWorld(t *testing.T) {
	t.Parallel()
	d := newFixture(t, dispensarytest.WithWorldSize(model.LargeWorld()))
	d.sees("actions/platform.place_order", `<input id="patient_id" name="patient_id" value="" autocomplete="off" required list="patient_id-choices">`)
	for range latest {
		_, _, err := d.fake.Plans.Create(d.fake.Patients.All()[0].ID, model.NewPlan{})
		require.NoError(t, err)
	}
	plan := d.fake.Plans.All()[0].ID // not one of the latest
	page := d.sees("actions/platform.place_order", `<input id="body.plan_ids" name="body.plan_ids" autocomplete="off"></fieldset>`)
	assert.Equal(t, latest, strings.Count(page, `type="checkbox" name="body.plan_ids"`))
	assert.NotContains(t, page, plan)
	d.sees("actions/platform.place_order?body.plan_ids="+plan, `value="`+plan+`" checked>`)
}

// A page that names an operation which is not there cannot be shown.
func TestRoomsNameOperations(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, op := range control.Operations() {
		known[op.ID] = true
	}
	d := newFixture(t)
	for _, r := range pages() {
		for _, id := range r.operations {
			assert.True(t, known[id], id)
			d.sees(r.Path, "<summary>"+id+"</summary>")
		}
	}
}

// A fault is asked for by its effect; then there are the fields that the effect reads.
func TestTheFormOfAFault(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	first := d.sees("actions/faults.set", `<form class="fields" method="get">`, `<select id="body.effect"`, "Break the connection off after the work is done")
	assert.NotContains(t, first, `method="post"`, "there is nothing to fill in yet")
	asked := regexp.MustCompile(`name="body\.(\w+)"`)
	read := map[string]bool{}
	for _, e := range effects {
		page := d.sees("actions/faults.set?body.effect="+string(e.Name), `<option value="`+string(e.Name)+`" selected>`, "How often, and which")
		var fields []string
		for _, found := range asked.FindAllStringSubmatch(page, -1) {
			fields = append(fields, found[1])
			read[found[1]] = true
		}
		assert.Subset(t, fields, e.Fields, e.Name)
		assert.LessOrEqual(t, len(fields), 2+2+3+len(rarely), "%s has few fields: %s", e.Name, fields)
	}
	op, _ := find("faults.set")
	for _, f := range op.Fields() {
		assert.True(t, read[f.Name], "no effect reads %s", f.Name)
	}
	var names []model.Effect
	for _, e := range effects {
		names = append(names, e.Name)
	}
	assert.Equal(t, model.Effects(), names)

	assert.Contains(t, d.do("faults.set", 422, "body.effect", "latency", "body.delay", "soon"), `value="soon"`, "what was entered is still there")
	d.do("faults.set", 200, "body.effect", "latency", "body.delay", "1s")
	assert.Len(t, d.fake.Faults(), 1)
}

func TestEveryActionHasATitle(t *testing.T) {
	t.Parallel()
	acts := 0
	for _, op := range control.Operations() {
		if op.Method != http.MethodGet {
			acts++
			assert.NotEmpty(t, actionTitles[op.ID], op.ID)
		}
	}
	assert.Len(t, actionTitles, acts, "no title is left over")
}
