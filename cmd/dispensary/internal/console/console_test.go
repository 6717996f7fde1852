package console

import (
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
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

// fixture is a fake platform with its console on a socket.
type fixture struct {
	t    *testing.T
	fake *dispensarytest.Server
	url  string
}

func newFixture(t *testing.T, opts ...dispensarytest.Option) *fixture {
	t.Helper()
	return newInactiveFixture(t, append(opts, dispensarytest.WithBehavior(behavior.IntegrationActivationFromTheStart))...)
}

// newInactiveFixture is newFixture with an integration that is not active.
func newInactiveFixture(t *testing.T, opts ...dispensarytest.Option) *fixture {
	t.Helper()
	clock := dispensarytest.FrozenClock(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))
	fake := dispensarytest.New(t, append(opts, dispensarytest.WithClock(clock))...)
	api := control.New(fake, control.Options{ControlURL: "http://127.0.0.1:8081/control"})
	mux := http.NewServeMux()
	mux.Handle("/console/", http.StripPrefix("/console", New(fake, api)))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &fixture{t: t, fake: fake, url: server.URL + "/console/"}
}

func (d *fixture) read(response *http.Response, err error) (int, string) {
	d.t.Helper()
	require.NoError(d.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(d.t, err)
	return response.StatusCode, string(text)
}

// sees opens a page and requires texts on it.
func (d *fixture) sees(path string, texts ...string) string {
	d.t.Helper()
	status, page := d.read(http.Get(d.url + path))
	require.Equal(d.t, http.StatusOK, status, page)
	for _, text := range texts {
		require.Contains(d.t, page, text, path)
	}
	return page
}

// do sends the form of an action and requires a status.
func (d *fixture) do(id string, status int, fields ...string) string {
	d.t.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	got, page := d.read(http.PostForm(d.url+"actions/"+id, form))
	require.Equal(d.t, status, got, page)
	return page
}

var form = regexp.MustCompile(`(?s)<form method="post" action="([^"]+)">(.*?)</form>`)

// press presses the first button on a page with a label that begins with label. It returns the
// page after the action.
func (d *fixture) press(path, label string) string {
	d.t.Helper()
	for _, found := range form.FindAllStringSubmatch(d.sees(path), -1) {
		if !strings.Contains(found[2], "<button>"+label) {
			continue
		}
		fields := url.Values{}
		for _, hidden := range regexp.MustCompile(`name="([^"]+)" value="([^"]*)"`).FindAllStringSubmatch(found[2], -1) {
			fields.Set(hidden[1], html.UnescapeString(hidden[2]))
		}
		response, err := http.PostForm(d.url+found[1], fields)
		require.NoError(d.t, err)
		page, _, _ := strings.Cut(path, "?")
		assert.Equal(d.t, "/console/"+page, response.Request.URL.Path, "the action returns to its page")
		status, text := d.read(response, nil)
		require.Equal(d.t, http.StatusOK, status, text)
		return text
	}
	require.Fail(d.t, "missing button", label)
	return ""
}

// fill creates data for every page.
func (d *fixture) fill() {
	d.t.Helper()
	status := http.StatusInternalServerError
	challenge := d.fake.Application().ChallengeToken
	require.NoError(d.t, d.fake.Webhooks.RegisterHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"challenge":"`+challenge+`"}`)
		status = http.StatusOK
	})))
	token := d.fake.Tokens.Issue(model.User{})
	require.NoError(d.t, d.fake.Tokens.Expire(d.fake.Tokens.Issue(model.User{}).AccessToken))
	patient := d.fake.Patients.All()[0].ID
	_, _, err := d.fake.Plans.Create(patient, model.PlanCreate{Draft: true})
	require.NoError(d.t, err)
	_, _, err = d.fake.Orders.Place(patient, model.OrderCreate{})
	require.NoError(d.t, err)
	d.fake.Clock.Advance(0)
	request, err := http.NewRequestWithContext(d.t.Context(), "GET", d.fake.Site().BaseURL+"/clinic?pages=it's", nil)
	require.NoError(d.t, err)
	request.Header.Set("Authorization", "Bearer "+token.AccessToken)
	d.read(d.fake.HTTPClient().Do(request))
}

func TestPagesShowPlatformState(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	for _, r := range pages() {
		d.sees(r.Path, `aria-current="page">`+r.Title+"</a>", "<h1>"+r.Title+"</h1>")
	}
	d.fill()
	d.fake.Fault(model.Fault{Effect: model.EffectDropAfterCommit, Times: 1})
	app := d.fake.Application()
	d.sees("", app.ClientSecret, app.WebhookSecret, d.fake.Users()[0].Password, "patients:read")
	d.sees("tokens", "expires <time", ">in 2 h<", "expired", "does not expire", ">Expire<")
	d.sees("world", "Jane Doe", d.fake.ClinicKey())
	d.sees("world?kind=plans", "/plans/", "Send")
	d.sees("world?kind=orders", "Refund")
	d.sees("world?kind=practitioners", d.fake.Practitioners.All()[0].Email)
	d.sees("world?kind=products", d.fake.Products.All()[0].Name)
	event := d.fake.Events()[0].ID
	assert.NotContains(t, d.sees("events", "order.placed", event), "order_number")
	d.sees("events?select="+event, "&#34;order_number&#34;", "deliveries?select=")
	assert.NotContains(t, d.sees("requests", "/api/clinic", "Unknown parameter &#34;pages&#34;"), "Repeat the request")
	d.sees("requests?select=request-1", "clinic.get", "<code>clinic:read</code> granted", html.EscapeString(`pages=it'\''s'`), "Bearer $TOKEN")
	d.sees("clock", "The clock is frozen", "due <time", ">in 1 min<", "to the next delivery", "order.placed", "in 2 h")
	d.sees("faults", "drop_after_commit of any", "0 times", "fault-1")
	d.sees("behaviors", `<span class="state done">off</span>`, "before-each")
}

var attemptSlots = regexp.MustCompile(`<li class="state (\w+)">`)

func TestDeliveryShowsAttempts(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.fill()
	details := "deliveries?select=" + d.fake.Webhooks.Deliveries()[0].ID
	states := func() (states []string) {
		for _, found := range attemptSlots.FindAllStringSubmatch(d.sees(details), -1) {
			states = append(states, found[1])
		}
		return states
	}
	assert.Equal(t, []string{"failed", "due", "later", "later", "later", "later"}, states())
	assert.NotContains(t, d.sees("deliveries", "in 1 min", ">failing</span> <small>status 500</small>", "Retry now"), "SVC-Signature")
	d.sees(details, "Verify the signature", "SVC-Signature: t=")
	d.sees("clock", "to the next delivery")
	d.press(details, "Retry now")
	d.sees(details, ">delivered<", `<span class="failed">failed <b>1</b></span> <span class="done">delivered <b>1</b></span>`)
	assert.Equal(t, []string{"failed", "done"}, states())
}

// The shell commands on the page compute the correct signature.
func TestVerifyCommandComputesSignature(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	d := newFixture(t)
	d.fill()
	attempt := d.fake.Webhooks.Deliveries()[0].Attempts[0]
	out, err := exec.CommandContext(t.Context(), "sh", "-c", verifyCommand(attempt, d.fake.Application().WebhookSecret)).Output()
	require.NoError(t, err)
	_, signature, _ := strings.Cut(attempt.Signature, "v1=")
	assert.Contains(t, string(out), signature)
	assert.Contains(t, verifyCommand(model.Attempt{}, ""), "not signed")
}

// The page names the effects of a reset.
func TestResetRestoresEndpoint(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.fill()
	d.fake.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 503})
	d.sees("", "webhook endpoint and behaviors", "Removes faults, sign-ins and requests.")
	d.press("", "Reset the platform")
	_, registered := d.fake.Webhooks.Endpoint()
	assert.False(t, registered)
	assert.Empty(t, d.fake.Faults())
	assert.Empty(t, d.fake.Journal.Requests())
}

// The console shows the result of a check.
func TestCheckShowsResult(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	const button = "Find unexpected requests"
	page := d.press("requests", button)
	assert.Contains(t, page, "<b>Passed.</b>")
	assert.Contains(t, page, "&#34;passed&#34;: true")
	d.fill()
	page = d.press("requests", button)
	assert.Contains(t, page, `<b class="failed">Failed.</b>`)
	assert.NotContains(t, page, "Done.")
	assert.Contains(t, d.press("requests", "Remove all"), "<b>Done.</b>")
}

func TestForeignRequestsAreRejected(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	for _, test := range []struct {
		method, path, header, value string
		status                      int
	}{
		{"GET", "", "Sec-Fetch-Site", "same-site", 200}, // a link from the platform's own pages
		{"POST", "actions/platform.reset", "Sec-Fetch-Site", "cross-site", 403},
		{"POST", "actions/platform.reset", "Origin", "https://evil.example.com", 403},
		{"GET", "actions/platform.reset", "Host", "evil.example.com", 403},
		{"PUT", "actions/platform.reset", "Sec-Fetch-Site", "same-origin", 404},
	} {
		request, err := http.NewRequestWithContext(t.Context(), test.method, d.url+test.path, nil)
		require.NoError(t, err)
		request.Header.Set(test.header, test.value)
		if test.header == "Host" {
			request.Host = test.value
		}
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		policy := response.Header.Get("Content-Security-Policy")
		status, page := d.read(response, nil)
		assert.Equal(t, test.status, status, "%s %s", test.method, test.value)
		assert.Contains(t, policy, "default-src 'none'")
		assert.NotContains(t, policy, "unsafe")
		assert.NotContains(t, page, "<script>")
		assert.NotContains(t, page, " style=")
	}
	for name, text := range map[string]string{"style.css": "light dark", "live.js": "EventSource", "icon.svg": "<svg"} {
		status, content := d.read(http.Get(d.url + name))
		assert.Equal(t, 200, status)
		assert.Contains(t, content, text)
	}
}

func TestChangedPointsAreFirst(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	page := d.sees("behaviors", "1 of "+strconv.Itoa(len(behavior.Choices()))+" behaviors differ from the default.")
	first := strings.Index(page, `<article id="integration-activation"><h2>integration-activation <small class="due">changed, default `)
	require.Positive(t, first)
	assert.Equal(t, strings.Index(page, "<article"), first)
	require.NoError(t, d.fake.SetBehavior(behavior.ProbeBeforeEach))
	page = d.sees("behaviors", "2 of ", `<a href="#probe">probe</a>`, " <small>Default.</small>")
	order := regexp.MustCompile(`<article id="([^"]+)"`).FindAllStringSubmatch(page, 3)
	assert.Equal(t, []string{"integration-activation", "probe"}, []string{order[0][1], order[1][1]})
	assert.Less(t, order[2][1], "integration-activation", "unchanged points are sorted by name")
}

func TestReasonNamesLastProblem(t *testing.T) {
	t.Parallel()
	for want, attempt := range map[string]model.Attempt{
		"": {Status: 200}, "status 503": {Status: 503, Err: "status 503 is neither 200 nor 201"}, "no response": {Err: "connection refused"},
		"wrong response": {Status: 201, Err: "the response is not JSON"},
	} {
		row := deliveryRow{Delivery: model.Delivery{Attempts: []model.Attempt{{Status: 404, Err: "x"}, attempt}}}
		assert.Equal(t, want, row.Reason())
	}
	assert.Empty(t, deliveryRow{}.Reason())
}

func TestShortTruncatesIDs(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "short", short("short"))
	assert.Equal(t, "01234567…", short("0123456789abcdef"))
}

// asks sends n requests to the API, for lists with several pages.
func (d *fixture) asks(n int, path string) {
	d.t.Helper()
	for i := range n {
		response, err := d.fake.HTTPClient().Get(d.fake.Site().BaseURL + fmt.Sprintf(path, i+1))
		require.NoError(d.t, err)
		require.NoError(d.t, response.Body.Close())
	}
}

func TestListsArePaged(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.asks(2*perPage+7, "/clinic/patients/no-%d-")
	first := d.sees("requests", "1 to 50 of 107", `<a href="?page=2" rel="next">Older</a>`, "/no-107-", "/no-58-")
	assert.NotContains(t, first, "/no-57-")
	assert.NotContains(t, first, "Newer")
	d.sees("requests?page=2", "51 to 100 of 107", `<a href="?" rel="prev">Newer</a>`, `<a href="?page=3" rel="next">`, "/no-57-", "/no-8-")
	last := d.sees("requests?page=3", "101 to 107 of 107", `<a href="?page=2" rel="prev">Newer</a>`, "/no-1-")
	assert.NotContains(t, last, "Older")
	for _, page := range []string{"4", "99999999999", "-1", "x"} {
		d.sees("requests?page="+page, " of 107")
	}
}

func TestListsAreSearched(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.fill()
	d.asks(1, "/clinic/patients/No-%d-")
	found := d.sees("requests?q=no-1-", "1 to 1 of 1, from", "/No-1-", `value="no-1-"`, `<a href="?">Show all</a>`)
	assert.NotContains(t, found, "<td class=\"number\">1</td>")
	d.sees("requests?failed=true", "1 to 1 of 1, from", "/No-1-", `value="true" checked`)
	d.sees("requests?state=401", "/No-1-", `<option selected>401</option>`)
	d.sees("requests?kind=patients.get&page=2", "/No-1-", "1 to 1 of 1")
	d.sees("requests?q=nothing+like+this", "No requests match.")
	d.sees("requests?q=%3Cb%3E", "&lt;b&gt;")
	d.sees("events?kind=order.placed", "1 to 1 of 1")
	d.sees("events?kind=order.placed&state=failing&failed=true", "1 to 1 of 1")
	d.sees("events?q=order_number", "order.placed", "1 to ")
	d.sees("events?kind=patient.created", "No events match.", "<option selected>patient.created</option>")
	d.sees("deliveries?state=failing", "1 to 1 of 1", "Retry now")
	d.sees("deliveries?state=delivered", "No deliveries match.")
	d.sees("deliveries?q="+d.fake.Webhooks.Deliveries()[0].EventID, "1 to 1 of 1")
	d.sees("events", "<option>order.placed</option>")
	d.sees("tokens?state=expired", "1 to 1 of 1, from")
	d.sees("tokens?q=nobody", "No tokens match.")
	d.sees("world?q=jane", "1 to 1 of", `<a href="?kind=patients">Show all</a>`)
	d.sees("world?kind=plans&state=draft&q=jane+doe", "1 to 1 of 1, from", `<input type="hidden" name="kind" value="plans">`)
	d.sees("world?kind=orders&q=no+such+number", "No orders match.")
	d.sees("world?kind=products&q="+d.fake.Products.All()[0].VariantIDs[0], "1 to 1 of 1, from")
}

// A button on a filtered page returns to the same rows.
func TestButtonsKeepFilter(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.fill()
	d.sees("deliveries?q=order&state=failing&page=1&more=x", `name="return" value="deliveries?q=order&amp;state=failing"`)
}

// The details of a row are below it, on the page of the row, also after newer rows arrive.
func TestDetailsFollowTheirRow(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.asks(perPage+7, "/clinic/patients/no-%d-")
	d.sees("requests", `<a href="?select=request-57#request-57">GET /api/clinic/patients/no-57-</a>`)
	page := d.sees("requests?select=request-3", "51 to 57 of 57", `<tr id="request-3" class="open">`, `<a href="?page=2#request-3" aria-current="true">`,
		`href="./timeline?q=no-3-"`, "name=\"return\" value=\"requests?select=request-3\"")
	assert.Equal(t, 1, strings.Count(page, `class="pane"`))
	assert.NotContains(t, d.sees("requests?select=request-3&q=no-4-"), `class="pane"`, "the filter excludes the row")
	d.sees("requests?select=request-99", "1 to 50 of 57")
}

// The timeline contains requests, events and delivery attempts.
func TestTimelineJoinsTraffic(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.fill()
	order, event := d.fake.Orders.All()[len(d.fake.Orders.All())-1], d.fake.Events()[len(d.fake.Events())-1]
	d.asks(1, "/clinic/orders/"+order.ID+"?n=%d")
	d.press("deliveries", "Retry now")
	page := d.sees("timeline?q=" + order.ID)
	var lines []string
	for _, found := range regexp.MustCompile(`<td>(\w+)</td><td class="line"><a href="([^"]*)">([^<]*)</a></td><td class="line less"><span class="state (\w+)">([^<]*)`).FindAllStringSubmatch(page, -1) {
		lines = append(lines, strings.Join(found[1:], " | "))
	}
	delivery := d.fake.Webhooks.Deliveries()[0].ID
	assert.Equal(t, []string{
		"delivery | ./deliveries?select=" + delivery + "#" + delivery + " | order.placed, attempt 2 | done | 200",
		"delivery | ./deliveries?select=" + delivery + "#" + delivery + " | order.placed, attempt 1 | failed | status 500 is neither 200 nor 201",
		"event | ./events?select=" + event.ID + "#" + event.ID + " | order.placed | done | created",
		"request | ./requests?select=request-2#request-2 | GET /api/clinic/orders/" + order.ID + " | failed | 401",
	}, lines)
	d.sees("timeline?kind=delivery&failed=true", "1 to 1 of 1")
	d.sees("timeline?state=ok&q="+order.ID, "1 to 2 of 2")
}

// Events that were not sent are red on the timeline. Every page of traffic has the action that helps.
func TestPagesShowUnsentEvents(t *testing.T) {
	t.Parallel()
	d := newInactiveFixture(t)
	fake := d.fake
	place := func() {
		_, _, err := fake.Orders.Place(fake.Patients.All()[0].ID, model.OrderCreate{})
		require.NoError(t, err)
	}
	place()
	page := d.sees("timeline", `<span class="state failed">not sent: no webhook endpoint is registered</span>`, "not sent: no webhook endpoint is registered.</p>", `<a href="./deliveries">Register an endpoint</a>`)
	assert.NotContains(t, page, ">created<")

	require.NoError(t, fake.Host("https://ehr.example.com", http.NotFoundHandler()))
	require.NoError(t, fake.Webhooks.Register("https://ehr.example.com/webhooks"))
	place()
	d.sees("events", "1 event was not sent: no integration of the clinic is active")
	d.sees("deliveries", "There are no deliveries yet.</p>")
	page = d.press("timeline", "Activate the integration")
	assert.Contains(t, page, "Done.")
	assert.NotContains(t, page, "1 event was not sent")
	assert.NotContains(t, d.sees("deliveries"), "not sent")
}

func TestRowShowsOtherDay(t *testing.T) {
	t.Parallel()
	f := &frame{Now: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)}
	assert.EqualValues(t, `<time datetime="2026-03-02T08:59:59Z" title="2026-03-02 08:59:59 UTC">08:59:59</time>`, f.Clocked(f.Now.Add(-time.Second)))
	assert.Contains(t, f.Clocked(f.Now.Add(-10*time.Hour)), ">1 Mar 23:00:00<")
	assert.EqualValues(t, "–", f.Clocked(time.Time{}))
}

// With stored bodies, a request links to its created object and can be repeated unchanged.
func TestStoredBodiesAreShown(t *testing.T) {
	t.Parallel()
	d := newFixture(t, dispensarytest.WithTuning(dispensarytest.Tuning{Bodies: true}))
	token := d.fake.Tokens.Issue(model.User{})
	request, err := http.NewRequestWithContext(t.Context(), "POST", d.fake.Site().BaseURL+"/clinic/patients", strings.NewReader(`{"first_name":"Zoë","last_name":"O'Neil","email":"zoe@example.org"}`))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+token.AccessToken)
	request.Header.Set("Content-Type", "application/json")
	status, _ := d.read(d.fake.HTTPClient().Do(request))
	require.Equal(t, http.StatusCreated, status)
	made := d.fake.Patients.All()[len(d.fake.Patients.All())-1].ID
	page := d.sees("requests?select=request-1", "timeline?q="+made, html.EscapeString(`--json '{"first_name":"Zoë","last_name":"O'\''Neil"`), "<h3>Response</h3>")
	assert.NotContains(t, page, "--bodies")
	assert.NotContains(t, page, token.AccessToken)
	d.sees("timeline?q="+made, "1 to 1 of 1", "POST /api/clinic/patients")
}

func TestSoonestSortsByTime(t *testing.T) {
	t.Parallel()
	type row struct{ n, after int }
	at := func(r *row) time.Time {
		if r.after == 0 {
			return time.Time{}
		}
		return time.Unix(int64(r.after), 0)
	}
	dice := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{0, 1, perPage, perPage + 1, 1000} {
		var rows, want []row
		for i := range n {
			rows = append(rows, row{i, dice.IntN(100)})
			if rows[i].after != 0 {
				want = append(want, rows[i])
			}
		}
		slices.SortStableFunc(want, func(a, b row) int { return a.after - b.after })
		assert.Equal(t, want[:min(len(want), perPage)], soonest(rows, at), n)
	}
}
