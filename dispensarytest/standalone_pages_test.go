package dispensarytest

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// person is a user of the pages, with a browser without scripts.
type person struct {
	*browser
	address string
	page    response
}

func (b *browser) visit(address string) *person {
	b.t.Helper()
	return &person{browser: b, address: address, page: b.open(address)}
}

var (
	inputField    = regexp.MustCompile(`<input[^>]* name="([^"]+)"[^>]*>`)
	textField     = regexp.MustCompile(`(?s)<textarea[^>]* name="([^"]+)"[^>]*>(.*?)</textarea>`)
	valueOf       = regexp.MustCompile(` value="([^"]*)"`)
	unescapedHTML = strings.NewReplacer("&#39;", "'", "&#34;", `"`, "&lt;", "<", "&gt;", ">", "&amp;", "&", "&#43;", "+")
)

// fields returns the fields of the page's form.
func (p *person) fields() url.Values {
	fields := url.Values{}
	for _, input := range inputField.FindAllStringSubmatch(p.page.text, -1) {
		value := valueOf.FindStringSubmatch(input[0])
		if value == nil || strings.Contains(input[0], `type="checkbox"`) && !strings.Contains(input[0], " checked") {
			continue
		}
		fields.Set(input[1], unescapedHTML.Replace(value[1]))
	}
	for _, text := range textField.FindAllStringSubmatch(p.page.text, -1) {
		fields.Set(text[1], unescapedHTML.Replace(text[2]))
	}
	return fields
}

// press fills in some fields, presses a button and follows a redirect.
func (p *person) press(button string, change url.Values) *person {
	p.t.Helper()
	fields := p.fields()
	maps.Copy(fields, change)
	fields.Set("do", button)
	resp, err := p.plain().PostForm(p.address, fields)
	require.NoError(p.t, err)
	to := resp.Header.Get("Location")
	status := resp.StatusCode
	responded := decoded(p.t, resp)
	if status != http.StatusSeeOther {
		return &person{browser: p.browser, address: p.address, page: responded}
	}
	base, err := url.Parse(p.address)
	require.NoError(p.t, err)
	next, err := base.Parse(to)
	require.NoError(p.t, err)
	followed := p.visit(next.String())
	next.RawQuery = ""
	followed.address = next.String()
	return followed
}

// sees requires texts on the page.
func (p *person) sees(status int, texts ...string) *person {
	p.t.Helper()
	require.Equal(p.t, status, p.page.status, "%s", p.page.text)
	for _, text := range texts {
		require.Contains(p.t, p.page.text, text)
	}
	return p
}

// kinds returns the types of the events after the first n.
func (b *browser) kinds(n int) []string {
	kinds := []string{}
	for _, e := range b.fake.Events()[n:] {
		kinds = append(kinds, e.Type)
	}
	return kinds
}

var addButton = regexp.MustCompile(`value="(add:[^"]+)"`)

// add finds a product and adds its first pack to the plan.
func (p *person) add(product string) *person {
	p.t.Helper()
	found := p.press("find", url.Values{"query": {product}})
	button := addButton.FindStringSubmatch(found.page.text)
	require.NotNil(p.t, button, "%s", found.page.text)
	return found.press(button[1], url.Values{"query": {""}})
}

// link requests a link for finishing a plan from the API.
func (b *browser) link(body map[string]any) *person {
	b.t.Helper()
	body["practitioner_id"] = b.fake.Practitioners.All()[1].ID
	request := map[string]any{"treatment_plan": body}
	if email, named := body["email"]; named {
		request["patient"] = map[string]any{"email": email}
	}
	delete(body, "email")
	address := b.send("POST", "/clinic/dynamic_links/treatment_plans", request).ok(200, "dynamic_links", "redirect_url")
	return b.visit(address.(string))
}

func TestDynamicLinkFinishesPlan(t *testing.T) {
	t.Parallel()
	b := start(t)
	product := b.fake.Products.All()[3]
	p := b.link(map[string]any{"email": "new.patient@example.org"}).sees(200, "Treatment plan for new.patient@example.org", "Nothing is recommended yet")
	calls := len(b.fake.Journal.Requests())
	p.press("send", nil).sees(422, "recommend at least one product")
	p = p.add(product.Name).sees(200, product.Name)
	assert.Empty(t, b.kinds(0), "nothing has happened yet")
	p = p.press("send", url.Values{"message": {"Twice a day & <b>gladly</b>"}, "units.0": {"2"}, "frequency.0": {"twice per day"}, "refill.0": {"yes"}})
	p.sees(200, "The plan was sent to the patient.", "Twice a day &amp; &lt;b&gt;gladly&lt;/b&gt;", "Cancel the plan")
	assert.Equal(t, []string{model.EventTreatmentPlanCreated}, b.kinds(0))
	assert.Len(t, b.fake.Journal.Requests(), calls, "a page is not an API call")

	plan := b.latestPlan()
	assert.Equal(t, model.PlanStateActive, plan.State)
	assert.Equal(t, "Twice a day & <b>gladly</b>", plan.PersonalMessage)
	assert.Equal(t, []model.Recommendation{
		{VariantID: product.VariantIDs[0], UnitsToPurchase: 2, Refill: true, Dosage: &model.Dosage{Frequency: "twice per day"}},
	}, plan.Recommendations)
	assert.Equal(t, b.fake.Practitioners.All()[1].ID, plan.PractitionerID)
	data := string(b.fake.Events()[0].Data)
	assert.Contains(t, data, `"units_to_purchase":2`, "the event contains the sent plan")
}

func TestEditorChangesAndCancelsPlan(t *testing.T) {
	t.Parallel()
	b := start(t)
	plan, _, err := b.fake.Plans.Create(b.fake.Patients.All()[0].ID, model.PlanCreate{PersonalMessage: "Hello"})
	require.NoError(t, err)
	before := len(b.fake.Events())
	p := b.visit(b.get("/clinic/dynamic_links/treatment_plans/"+plan.ID).ok(200, "dynamic_links", "redirect_url").(string))
	p = p.press("save", nil).sees(200, "was saved")
	assert.Empty(t, b.kinds(before), "nothing changed")
	p = p.press("save", url.Values{"units.0": {"5"}}).sees(200, `value="5"`)
	assert.Equal(t, []string{model.EventTreatmentPlanRecommendationUpdated}, b.kinds(before))
	p = p.add(b.fake.Products.All()[5].Name).press("save", nil).sees(200, "was saved")
	p = p.press("save", url.Values{"message": {"Hello again"}}).sees(200, "Hello again")
	assert.Equal(t, []string{model.EventTreatmentPlanUpdated, model.EventTreatmentPlanUpdated}, b.kinds(before+1))
	p.press("remove:0", nil).press("remove:0", nil).sees(200, "Nothing is recommended yet")
	p.press("save", url.Values{"units.0": {"many"}}).sees(422, `&#34;many&#34; is not a number of units`)
	p.press("save", url.Values{"units.0": {"0"}}).sees(422, "0 is not a number of units")
	p.press("dance", nil).sees(422, "no button")
	p.press("cancel", url.Values{"units.0": {"many"}}).sees(200, "was cancelled", "This plan is cancelled.", "<blockquote>Hello again</blockquote>")
	assert.Equal(t, model.EventTreatmentPlanUpdated, b.kinds(before + 3)[0])
	p.press("save", nil).sees(422, "is cancelled")
	p.press("show", nil).sees(200, "This plan is cancelled.")
}

func TestEditorAddsMissingPatient(t *testing.T) {
	t.Parallel()
	b := start(t)
	product, patient := b.fake.Products.All()[0], b.fake.Patients.All()[2]
	p := b.link(map[string]any{}).sees(200, "without a patient", patient.Email).add(product.Name)
	p.press("send", nil).sees(422, "has no patient, so it cannot be sent")
	p.press("send", url.Values{"patient": {"nobody@example.org"}}).sees(422, "No patient has the e-mail address")
	p = p.press("save", url.Values{"patient": {strings.ToUpper(patient.Email)}}).sees(200, "Treatment plan for "+patient.FirstName, "was saved")
	p.press("send", nil).sees(200, "was sent")
	plan := b.latestPlan()
	assert.Equal(t, []string{patient.ID, model.PlanStateActive}, []string{plan.PatientID, plan.State})
	assert.Equal(t, []string{model.EventTreatmentPlanUpdated, model.EventTreatmentPlanCreated}, b.kinds(0))
}

func TestEditorCreatesPlan(t *testing.T) {
	t.Parallel()
	b := start(t)
	patient, practitioner := b.fake.Patients.All()[1], b.fake.Practitioners.All()[1]
	p := b.visit(b.get("/clinic/dynamic_links/treatment_plans").ok(200, "redirect_url").(string)).sees(200, "A new treatment plan", practitioner.LastName)
	p.press("send", nil).sees(422, "enter the e-mail address")
	p.press("find", url.Values{"query": {"no such thing"}}).sees(200, "No product has this name.")
	p = p.press("show", url.Values{"patient": {patient.Email}, "practitioner": {practitioner.ID}}).sees(200, `value="`+patient.Email, " selected>"+practitioner.FirstName)
	p.press("save", nil).sees(422, "recommend at least one product")
	p = p.add(b.fake.Products.All()[0].Name)
	draft := p.press("save", url.Values{"practitioner": {practitioner.ID}}).sees(200, "was saved", "Send to the patient")
	assert.Empty(t, b.kinds(0), "a draft emits no event")
	draft.press("send", nil).sees(200, "was sent")
	p.press("send", url.Values{"practitioner": {"nobody"}}).sees(422, "practitioner")
	p.press("send", url.Values{"practitioner": {practitioner.ID}}).sees(200, "was sent")
	assert.Equal(t, []string{model.EventTreatmentPlanCreated, model.EventTreatmentPlanCreated}, b.kinds(0))
	plan := b.latestPlan()
	assert.Equal(t, []string{patient.ID, practitioner.ID, model.PlanStateActive}, []string{plan.PatientID, plan.PractitionerID, plan.State})
}

func (b *browser) latestPlan() model.Plan {
	plans := b.fake.Plans.All()
	return plans[len(plans)-1]
}

func (b *browser) activePlan(t *testing.T, units int) model.Plan {
	t.Helper()
	variants := b.fake.Products.All()
	plan, _, err := b.fake.Plans.Create(b.fake.Patients.All()[2].ID, model.PlanCreate{Recommendations: []model.Recommendation{
		{VariantID: variants[0].VariantIDs[0], UnitsToPurchase: units, Dosage: &model.Dosage{Amount: "1", Format: "capsule"}},
		{VariantID: variants[1].VariantIDs[0], UnitsToPurchase: 1},
	}})
	require.NoError(t, err)
	return plan
}

func TestCheckoutPlacesOrder(t *testing.T) {
	t.Parallel()
	b := start(t)
	plan := b.activePlan(t, 2)
	before := len(b.fake.Events())
	b.visit(b.fake.origin+"/checkouts/"+plan.ID).sees(404, "The cart is empty")
	address := b.send("POST", "/clinic/treatment_plans/"+plan.ID+"/in_office_checkout", map[string]any{}).ok(201, "in_office_checkout", "url").(string)
	p := b.visit(address).sees(200, "In-office checkout", "For Priya Raman", "Discount", "4.99", "1 capsule")
	done := p.press("place", nil).sees(200, "was placed")
	assert.NotContains(t, done.page.text, "Place the order")
	orders := b.fake.Orders.All()
	order := orders[len(orders)-1]
	done.sees(200, order.Number, order.PaymentTotal.String())
	assert.Equal(t, []string{plan.ID}, order.PlanIDs)
	assert.Equal(t, store.LinesOf(plan.Recommendations), order.Lines)
	assert.Equal(t, []string{model.EventOrderPlaced}, b.kinds(before))
	p.press("place", nil).sees(404, "already placed")
}

func TestCheckoutChangesQuantities(t *testing.T) {
	t.Parallel()
	b := start(t)
	plan := b.activePlan(t, 2)
	b.send("POST", "/clinic/treatment_plans/"+plan.ID+"/in_office_checkout", map[string]any{}).ok(201)
	p := b.visit(b.fake.origin + "/checkouts/" + plan.ID)
	total := regexp.MustCompile(`Total</th><td>([0-9.]+)`)
	updated := p.press("show", url.Values{"quantity.0": {"1"}}).sees(200, `value="1"`)
	assert.NotEqual(t, total.FindStringSubmatch(p.page.text)[1], total.FindStringSubmatch(updated.page.text)[1])
	p.press("place", url.Values{"quantity.0": {"-1"}}).sees(422, "is not a quantity")
	p.press("place", url.Values{"quantity.0": {"0"}, "quantity.1": {"0"}}).sees(422, "at least one product")
	p.press("place", url.Values{"quantity.0": {"0"}, "quantity.1": {"3"}}).sees(200, "was placed")
	orders := b.fake.Orders.All()
	assert.Equal(t, []model.Line{{VariantID: plan.Recommendations[1].VariantID, Quantity: 3}}, orders[len(orders)-1].Lines)
}

func TestInvitationPlacesOrder(t *testing.T) {
	t.Parallel()
	b := start(t)
	plan := b.activePlan(t, 1)
	p := b.visit(b.get("/clinic/treatment_plans/"+plan.ID).ok(200, "treatment_plan", "invitation_url").(string))
	p.sees(200, "Your treatment plan", "recommended by").press("place", nil).sees(200, "was placed")
	_, _, err := b.fake.Plans.Cancel(plan.ID)
	require.NoError(t, err)
	b.visit(p.address).sees(410, "was cancelled")
	draft := b.link(map[string]any{})
	b.visit(strings.Replace(draft.address, "/edit", "/invitation", 1)).sees(404, "no such treatment plan")
}

func TestPagesRejectForeignRequests(t *testing.T) {
	t.Parallel()
	b := start(t)
	plan := b.activePlan(t, 1)
	address := b.fake.origin + "/plans/" + plan.ID + "/edit"
	page := b.visit(address).sees(200).page
	policy := page.header.Get("Content-Security-Policy")
	assert.Contains(t, policy, "default-src 'none'")
	assert.Contains(t, policy, "form-action 'self'")
	assert.NotContains(t, policy, "unsafe")
	assert.NotContains(t, page.text, "<script")
	for _, path := range []string{"/plans/x/edit", "/plans/x/invitation", "/checkouts/x"} {
		b.visit(b.fake.origin+path).sees(404, `role="alert"`)
	}
	b.open(b.fake.origin+"/plans/x/other").rejected(404, "Not Found")

	for method, want := range map[string]int{"POST": 403, "PUT": 405, "HEAD": 200} {
		assert.Equal(t, want, b.fetch(method, address, "do=cancel", "Content-Type", formType, "Sec-Fetch-Site", "cross-site").status, method)
	}
	assert.Equal(t, 400, b.fetch("POST", address, "do=%zz", "Content-Type", formType).status)
	assert.Equal(t, model.PlanStateActive, b.fake.Plans.All()[len(b.fake.Plans.All())-1].State)

	secure := start(t, WithInMemory())
	secure.visit(strings.Replace(secure.fake.origin, "https:", "http:", 1)+"/plans/new").sees(403, "HTTPS is required")
	secure.visit(secure.fake.origin + "/plans/new").sees(200)
}

// Sending a draft from its page emits the same event as ActivatePlan, under both behaviors.
func TestPageSendFollowsBehavior(t *testing.T) {
	t.Parallel()
	for reading, want := range map[string][]string{
		"on-activation": {model.EventTreatmentPlanCreated}, "on-creation": {model.EventTreatmentPlanCreated, model.EventTreatmentPlanUpdated},
	} {
		b := start(t, WithBehavior("plan-created-event="+behavior.Variant(reading)))
		plan, _, err := b.fake.Plans.Create(b.fake.Patients.All()[0].ID, model.PlanCreate{Draft: true})
		require.NoError(t, err)
		b.visit(b.fake.origin+"/plans/"+plan.ID+"/edit").press("send", nil).sees(200, "was sent")
		assert.Equal(t, want, b.kinds(0), reading)
	}
}
