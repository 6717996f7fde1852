package main

import (
	"context"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/examples/ehr/fakes"
	_ "github.com/dispensary-go/dispensary/integration/postgres"
	"github.com/dispensary-go/dispensary/internal/testkit/postgrestest"
)

// fixture contains the platforms and the program. The program keeps its URL across restarts.
type fixture struct {
	*testing.T
	*fakes.Fakes
	home    string
	program atomic.Value // http.Handler
	stop    func() error // stops the program
}

// everywhere runs a test with tokens in SQLite and in PostgreSQL.
func everywhere(t *testing.T, test func(f *fixture)) {
	t.Parallel()
	for name, store := range map[string]func(t *testing.T) string{"SQLite": func(*testing.T) string { return "" }, "PostgreSQL": func(t *testing.T) string { return postgrestest.Schema(t) }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var variables []string
			if address := store(t); address != "" {
				variables = append(variables, "DISPENSARY_STORE="+address)
			}
			f := &fixture{T: t}
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				f.program.Load().(http.Handler).ServeHTTP(w, r)
			}))
			t.Cleanup(front.Close)
			f.home = front.URL
			var err error
			f.Fakes, err = fakes.Start(f.home, variables...)
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, f.Close()) })
			f.start()
			t.Cleanup(func() { assert.NoError(t, f.stop()) })
			test(f)
			f.US.Journal.CheckNoUnexpected(t)
			f.Canada.Journal.CheckNoUnexpected(t)
		})
	}
}

// start starts the program.
func (f *fixture) start() {
	f.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(f, err)
	f.program.Store(http.Handler(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: listener.Addr().String()})))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, f.Config, f.Clinics, listener) }()
	f.stop = func() error {
		cancel()
		return <-ended
	}
}

// person is a browser of a signed-in user.
type person struct {
	*fixture
	browser *http.Client
}

func (f *fixture) person(id string) *person {
	f.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(f, err)
	p := &person{f, &http.Client{Jar: jar}}
	p.send("/sign-in", url.Values{"user": {id}})
	return p
}

// connect connects the person to an account of a platform.
func (p *person) connect(platform *dispensarytest.Server, account model.User) string {
	p.Helper()
	browser := platform.Browser(account)
	browser.Client.Jar = p.browser.Jar
	_, page := p.read(browser.Authorize(p.Context(), p.home+"/dispensary/connect?return_to=/"))
	return page
}

func (p *person) read(response *http.Response, err error) (status int, page string) {
	p.Helper()
	require.NoError(p, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(p, err)
	require.NoError(p, response.Body.Close())
	return response.StatusCode, html.UnescapeString(string(body))
}

func (p *person) get(path string) string {
	p.Helper()
	status, page := p.read(p.browser.Get(p.home + path))
	require.Equal(p, http.StatusOK, status, path)
	return page
}

// isAskedToConnect expects the page with a link to the connect page.
func (p *person) isAskedToConnect(path string) string {
	p.Helper()
	status, page := p.read(p.browser.Get(p.home + path))
	assert.Equal(p, http.StatusOK, status, path)
	assert.Contains(p, page, "<h1>Connect the dispensary</h1>")
	return page
}

func (p *person) send(path string, form url.Values) (int, string) {
	p.Helper()
	return p.read(p.browser.PostForm(p.home+path, form))
}

// sees waits until a page contains a text.
func (p *person) sees(path, text string) {
	p.Helper()
	require.Eventually(p, func() bool { return strings.Contains(p.get(path), text) }, time.Minute, 10*time.Millisecond, text)
}

// field returns the value of a hidden field.
func (p *person) field(page, name string) string {
	p.Helper()
	found := regexp.MustCompile(`type="hidden" name="` + name + `" value="([^"]*)"`).FindStringSubmatch(page)
	require.NotNil(p, found, name)
	return found[1]
}

// order places an order of a patient, and waits until the program has acknowledged the webhook.
func (f *fixture) order(platform *dispensarytest.Server, patient model.Patient) model.Order {
	f.Helper()
	order, event, err := platform.Orders.Place(patient.ID, model.OrderCreate{})
	require.NoError(f, err)
	require.NoError(f, platform.Webhooks.WaitDelivered(f.Context(), event.ID))
	return order
}

// patientOf returns the first patient of the clinic of an account.
func patientOf(platform *dispensarytest.Server, account model.User) model.Patient {
	for _, patient := range platform.Patients.All() {
		if patient.ClinicID == account.ClinicID {
			return patient
		}
	}
	panic("the clinic has no patient")
}

// Three practitioners of three clinics connect. Each sees the patients and orders of their own clinic.
func TestThreeClinics(t *testing.T) {
	everywhere(t, func(f *fixture) {
		accounts := f.Users()
		platforms := []*dispensarytest.Server{f.US, f.US, f.Canada}
		var people []*person
		for i, id := range []string{"osei", "fitzwilliam", "whitcombe"} {
			p := f.person(id)
			p.isAskedToConnect("/")
			assert.Contains(f, p.connect(platforms[i], accounts[i]), patientOf(platforms[i], accounts[i]).Email)
			people = append(people, p)
		}
		for i, p := range people {
			order := f.order(platforms[i], patientOf(platforms[i], accounts[i]))
			p.sees("/", order.Number)
			assert.Contains(f, p.get("/"), order.Number+", $")
			if platforms[i] == f.US { // both platforms use the same order numbers
				assert.NotContains(f, people[1-i].get("/"), order.Number)
			}
		}
	})
}

// The search runs in memory. The program reads the chosen product from the platform again.
func TestProductSearch(t *testing.T) {
	everywhere(t, func(f *fixture) {
		p, canadian := f.person("osei"), f.person("whitcombe")
		p.isAskedToConnect("/search?q=magn")
		p.connect(f.US, f.Users()[0])
		canadian.connect(f.Canada, f.Users()[2])
		assert.NotContains(f, p.get("/catalog"), " found")
		f.US.Journal.Reset()
		page := p.get("/catalog?q=glyc+magnezium")
		assert.Contains(f, page, "1 found of the brands that your clinic may order")
		assert.Contains(f, page, ">Magnesium Glycinate</a>")
		assert.Contains(f, p.get("/catalog?q=xyzzy"), "0 found")
		assert.Contains(f, p.get("/search?q=magn+glyc"), `"name":"Magnesium Glycinate"`)
		assert.Empty(f, f.US.Journal.Requests(), "the catalog is in memory")
		f.Canada.Fault(model.Fault{Operation: "brands.list", Effect: model.EffectErrorStatus, Status: http.StatusForbidden})
		unrestricted := canadian.get("/catalog?q=magn")
		assert.Contains(f, unrestricted, "Magnesium")
		assert.NotContains(f, unrestricted, "may order", "the brands cannot be read")

		chosen := regexp.MustCompile(`href="(/catalog/[^"]*)"`).FindStringSubmatch(page)
		require.NotNil(f, chosen)
		page = p.get(chosen[1])
		assert.Contains(f, page, ": available.")
		assert.Contains(f, page, "<title>Magnesium Glycinate · Example EHR</title>")
		assert.Contains(f, page, `<a href="/catalog?q=glyc%20magnezium">Back to the products for “glyc magnezium”</a>`)
		product, _, _ := strings.Cut(chosen[1], "?")
		assert.Contains(f, p.get(product), `<a href="/catalog?q=">Back to the catalog</a>`)
		f.US.Journal.CheckRequested(f, "variants.get")
		for path, want := range map[string]int{
			"/catalog/00000000-0000-4000-8000-000000000000": http.StatusNotFound,
			"/catalog?q=" + strings.Repeat("a+", 20):        http.StatusBadRequest,
		} {
			status, _ := p.read(p.browser.Get(f.home + path))
			assert.Equal(f, want, status, path)
		}
	})
}

// A practitioner cannot connect an account of another clinic. Otherwise its patients would appear as those of
// the practitioner's own clinic.
func TestAccountOfAnotherClinicIsRejected(t *testing.T) {
	everywhere(t, func(f *fixture) {
		p := f.person("fitzwilliam")
		assert.Contains(f, p.connect(f.US, f.Users()[0]), "<h1>Wrong account</h1>")
		page := p.isAskedToConnect("/")
		for i, account := range f.Users()[:2] {
			clinic, err := f.US.Client(account).Clinic.Get(f.Context())
			require.NoError(f, err)
			assert.NotContains(f, page, clinic.Name)
			if i == 1 {
				assert.Contains(f, p.connect(f.US, account), "<small>"+clinic.Name+"</small>")
			}
		}
		f.US.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: http.StatusServiceUnavailable, Operation: "clinic.get"})
		assert.Contains(f, p.connect(f.US, f.Users()[1]), "cannot be reached")
		f.US.ClearFaults()
		assert.Contains(f, p.get("/"), "<h1>Patients</h1>")
	})
}

// A practitioner creates a plan from a protocol. Errors appear next to their lines, and webhooks update the
// state of the plan.
func TestPractitionerCreatesPlanFromProtocol(t *testing.T) {
	everywhere(t, func(f *fixture) {
		account := f.Users()[0]
		p, other := f.person("osei"), f.person("fitzwilliam")
		p.connect(f.US, account)
		other.connect(f.US, f.Users()[1])
		patient := patientOf(f.US, account)
		page := p.get("/")
		protocol := regexp.MustCompile(`<option value="([^"]*)">Better Sleep`).FindStringSubmatch(page)
		require.NotNil(f, protocol)
		path := "/patients/" + patient.ID + "/plan?protocol=" + protocol[1]
		page = p.get(path)
		assert.Contains(f, page, "with food", "the protocol's words are shown")
		assert.NotContains(f, page, `id="wrong"`)
		form := url.Values{"protocol": {protocol[1]}, "id": {p.field(page, "id")}, "units0": {"many"}, "info0": {"at noon"}, "info1": {"with food"}}

		status, page := p.send(path, form)
		assert.Equal(f, http.StatusUnprocessableEntity, status)
		assert.Contains(f, page, `<div id="units0-wrong"><p class="wrong">Units to purchase must be a whole number above 0</p>`)
		assert.Contains(f, page, `<div id="info0-wrong"><p class="wrong">Additional info has to be chosen`)
		assert.NotContains(f, page, `id="info1-wrong"`)
		assert.Regexp(f, `<li><a href="#units0">[^<:]+: Units to purchase must be`, page)
		assert.Regexp(f, `<li><a href="#info0">[^<:]+: Additional info has to be chosen`, page)
		assert.NotContains(f, page, `href="#info1"`)
		assert.Contains(f, page, `id="info1" name="info1">
<option value="">Choose</option><option value="with food" selected>with food</option>`, "the choice is still there")
		assert.Contains(f, page, `id="units0" name="units0" inputmode="numeric" placeholder="1" value="many"`, "what was typed is still there")
		assert.Equal(f, form.Get("id"), p.field(page, "id"))

		form.Set("units0", "")
		form.Set("info0", "with food")
		form.Set("state", "odd")
		status, page = p.send(path, form)
		assert.Equal(f, http.StatusUnprocessableEntity, status)
		assert.Contains(f, page, "Please check your entries.</p><ul>\n<li>State ", "an error without a field in the form")
		form.Del("state")
		form.Del("info0")

		read, err := f.US.Client(account).TreatmentPlans.Protocols.Get(f.Context(), protocol[1])
		require.NoError(f, err)
		backordered, available := model.VariantBackordered, model.VariantAvailable
		_, _, err = f.US.Products.UpdateVariant(read.Recommendations[1].VariantID, model.VariantUpdate{Status: &backordered})
		require.NoError(f, err)
		form.Set("units0", "")
		form.Set("omit0", "yes")
		status, page = p.send(path, form)
		assert.Equal(f, http.StatusUnprocessableEntity, status)
		_, line, _ := strings.Cut(page, "<fieldset>")
		first, second, _ := strings.Cut(line, "<fieldset>")
		assert.NotContains(f, first, `class="wrong"`)
		assert.Contains(f, second, `<p class="wrong">Variant is backordered</p>`, "beside the second line, which is the plan's first")
		assert.Contains(f, first, `name="omit0" value="yes" checked`)

		_, _, err = f.US.Products.UpdateVariant(read.Recommendations[1].VariantID, model.VariantUpdate{Status: &available})
		require.NoError(f, err)
		before := len(f.US.Plans.All())
		for range 2 { // a repeated submission
			status, page = p.send(path, form)
			assert.Equal(f, http.StatusOK, status, "after the redirect")
			assert.Contains(f, page, ">The plan for "+patient.FirstName+" "+patient.LastName+" was created.</p>")
		}
		assert.NotContains(f, p.get("/"), " was created.")
		plans := f.US.Plans.All()
		require.Len(f, plans, before+1)
		plan := plans[before]
		assert.Equal(f, model.PlanStateDraft, plan.State)
		require.Len(f, plan.Recommendations, 1)
		assert.Equal(f, "with food", plan.Recommendations[0].Dosage.AdditionalInfo)
		p.sees("/", "<b>Plan</b> draft")
		form.Set("id", "without info")
		form.Set("info1", "none")
		status, _ = p.send(path, form)
		assert.Equal(f, http.StatusOK, status)
		require.Len(f, f.US.Plans.All(), before+2)
		assert.Empty(f, f.US.Plans.All()[before+1].Recommendations[0].Dosage.AdditionalInfo)
		_, _, err = f.US.Plans.Activate(plan.ID)
		require.NoError(f, err)
		p.sees("/", "<b>Plan</b> active")
		status, page = p.send("/plans/"+plan.ID+"/checkout", nil)
		assert.Equal(f, http.StatusOK, status)
		assert.Contains(f, page, "Place the order", "on the platform's page")
		status, _ = other.send("/plans/"+plan.ID+"/checkout", nil)
		assert.Equal(f, http.StatusNotFound, status, "it is another clinic's")
		_, _, err = f.US.Plans.Cancel(plan.ID)
		require.NoError(f, err)
		p.sees("/", "<b>Plan</b> cancelled")
	})
}

// An order of a clinic without a connected user becomes a dead letter. After a user connects, the operator
// replays it.
func TestOperatorReplaysDeadLetter(t *testing.T) {
	everywhere(t, func(f *fixture) {
		account := f.Users()[1]
		order := f.order(f.US, patientOf(f.US, account))
		operator, practitioner := f.person("park"), f.person("fitzwilliam")
		key := regexp.MustCompile(`<button name="replay" value="([^"]*)"`)
		operator.sees("/operations/events?state=dead", "order.placed")
		found := key.FindStringSubmatch(operator.get("/operations/events?state=dead"))
		require.NotNil(f, found)
		assert.NotContains(f, practitioner.get("/operations/events?state=dead"), "order.placed", "this is not for practitioners")
		assert.Contains(f, operator.get("/"), "Sign in", "operators see no patients")

		practitioner.connect(f.US, account)
		assert.NotContains(f, practitioner.get("/"), order.Number)
		assert.Contains(f, operator.get("/operations/accounts"), `<dt>Connected</dt><dd class="big">1</dd>`)
		status, page := operator.send("/operations/bulk", url.Values{"replay": {found[1]}})
		assert.Equal(f, http.StatusOK, status)
		assert.Contains(f, page, "1 event was replayed.")
		practitioner.sees("/", order.Number)
		assert.NotContains(f, operator.get("/operations/events?state=dead"), "order.placed")
	})
}

// Accepted events that were not handled before a restart are handled afterwards. Users stay connected.
func TestRestartKeepsEventsAndUsers(t *testing.T) {
	everywhere(t, func(f *fixture) {
		account := f.Users()[0]
		p := f.person("osei")
		p.connect(f.US, account)
		f.US.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: http.StatusForbidden, Operation: "orders.get"})
		order := f.order(f.US, patientOf(f.US, account))
		require.NoError(f, f.stop())
		f.US.ClearFaults()
		f.start()
		p.sees("/", order.Number)
		assert.Len(f, regexp.MustCompile(order.Number).FindAllString(p.get("/"), -1), 1)
	})
}

// Forms of other sites and signed-out users change and see nothing.
func TestForeignAndSignedOutRequestsAreRejected(t *testing.T) {
	everywhere(t, func(f *fixture) {
		stranger := f.person("nobody@example.com")
		for _, path := range []string{"/", "/catalog", "/search", "/patients/x/plan", "/operations/", "/operations/events?state=dead"} {
			assert.Contains(f, stranger.get(path), "<h1>Sign in</h1>", path)
		}
		status, page := stranger.read(stranger.browser.Get(f.home + "/patient"))
		assert.Equal(f, http.StatusNotFound, status)
		assert.Contains(f, page, "<h1>Page not found</h1>")
		request, err := http.NewRequestWithContext(f.Context(), http.MethodPost, f.home+"/sign-in", strings.NewReader("user=park"))
		require.NoError(f, err)
		request.Header.Set("Sec-Fetch-Site", "cross-site")
		status, _ = stranger.read(http.DefaultClient.Do(request))
		assert.Equal(f, http.StatusForbidden, status)
	})
}
