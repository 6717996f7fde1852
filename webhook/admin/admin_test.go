package admin_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/admin"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

func TestNewNamesInvalidField(t *testing.T) {
	t.Parallel()
	engine := newFixture(t, nil).inbox
	for field, configs := range map[string][]admin.Config{
		"Engine":         {{}},
		"Hosts":          {{Hosts: []string{""}}, {Hosts: []string{"https://ops.example"}}, {Hosts: []string{"ops.example/"}}, {Hosts: []string{"jo@ops.example"}}, {Hosts: []string{"ops.example:x"}}},
		"TrustedOrigins": {{TrustedOrigins: []string{""}}, {TrustedOrigins: []string{"https://"}}, {TrustedOrigins: []string{"null"}}, {TrustedOrigins: []string{"ops.example"}}, {TrustedOrigins: []string{"https://ops.example/"}}},
	} {
		for _, c := range configs {
			if field != "Engine" {
				c.Engine = engine
			}
			_, err := admin.New(c)
			var wrong *api.ArgumentError
			require.ErrorAs(t, err, &wrong, field)
			assert.Equal(t, "admin.Config."+field, wrong.Field)
		}
	}
}

var links = regexp.MustCompile(`href="([^"#]+)"`)

// crawl opens all linked pages, and returns their texts.
func (f *fixture) crawl() map[string]string {
	f.Helper()
	start, err := url.Parse(f.url)
	require.NoError(f, err)
	pages, left := map[string]string{}, []*url.URL{start}
	for len(left) > 0 {
		at := left[0]
		left = left[1:]
		if _, seen := pages[at.String()]; seen {
			continue
		}
		response, err := http.Get(at.String())
		require.NoError(f, err)
		header := response.Header
		pages[at.String()] = f.read(http.StatusOK, response, err)
		assert.Equal(f, "no-store", header.Get("Cache-Control"), at)
		assert.Contains(f, header.Get("Content-Security-Policy"), "default-src 'none'", at)
		assert.Contains(f, header.Get("Content-Security-Policy"), "script-src 'self'", at)
		assert.NotContains(f, header.Get("Content-Security-Policy"), "unsafe", at)
		assert.Empty(f, response.Cookies())
		if !strings.HasPrefix(header.Get("Content-Type"), "text/html") {
			continue
		}
		for _, link := range links.FindAllStringSubmatch(pages[at.String()], -1) {
			to, err := at.Parse(html.UnescapeString(link[1]))
			require.NoError(f, err)
			require.True(f, strings.HasPrefix(to.String(), f.url), "%s has a link outside, to %s", at, to)
			left = append(left, to)
		}
	}
	return pages
}

// Every link leads to a page below the mount path, even without any events. Only the page of
// an opened body shows patient data.
func TestPagesShowNoPatientData(t *testing.T) {
	t.Parallel()
	opened := 0
	f := newFixture(t, func(_ *fixture, c *admin.Config) {
		c.Observer.BodyOpened = func(*http.Request, webhook.Key) error { opened++; return nil }
		c.Accounts = &fakeAccounts{}
		c.Alarms = map[string]*webhook.Alarm{"": newAlarm(t, 0)}
	})
	assert.Greater(t, len(f.crawl()), 6)
	dead := f.die(60)
	waits := f.accept(waiting)
	f.page.RunEnd(t.Context(), report(), nil)
	pages := f.crawl()
	assert.Greater(t, len(pages), 70, "pages of all events, lists, dry runs")
	for address, page := range pages {
		assert.NotContains(t, page, receivertest.Canary, address)
	}
	assert.Equal(t, "admin.Handler", fmt.Sprintf("%+v", f.page))
	assert.Zero(t, opened)

	for _, d := range []webhook.Delivery{dead[0], waits} {
		page := f.press(f.get(eventPath(d)), eventPath(d))
		assert.Contains(t, page, receivertest.Canary, "open body")
	}
	assert.Equal(t, 2, opened)
	for range 2 {
		assert.NotContains(t, f.get(eventPath(dead[0])), receivertest.Canary, "body closed again")
	}
}

// A body is shown only if the access was recorded.
func TestBodyNeedsRecordedAccess(t *testing.T) {
	t.Parallel()
	var by []any
	var keys []webhook.Key
	var failure error
	f := newFixture(t, func(f *fixture, c *admin.Config) {
		c.Observer.BodyOpened = func(r *http.Request, key webhook.Key) error {
			by, keys = append(by, r.Context().Value(staff{})), append(keys, key)
			return failure
		}
	})
	d := f.die(1)[0]
	page := f.post(http.StatusOK, eventPath(d), nil)
	assert.Contains(t, page, "no such patient", "error")
	assert.Contains(t, html.UnescapeString(page), `"first_name": "`+receivertest.Canary, "body")
	assert.Equal(t, []any{"jo"}, by)
	assert.Equal(t, []webhook.Key{d.Key}, keys)

	failure = errAudit
	page = f.post(http.StatusForbidden, eventPath(d), nil)
	assert.NotContains(t, page, receivertest.Canary)
	assert.Contains(t, page, "stays closed")

	f.post(http.StatusNotFound, eventPath(receivertest.NewDelivery()), nil)
	f.post(http.StatusBadRequest, "event?key=x", nil)
	f.post(http.StatusBadRequest, "event", nil)
	assert.Len(t, keys, 2, "an unknown event records no access")

	f = newFixture(t, nil)
	d = f.die(1)[0]
	assert.Contains(t, f.get(eventPath(d)), "cannot be opened here")
	page = f.post(http.StatusForbidden, eventPath(d), nil)
	assert.NotContains(t, page, receivertest.Canary)
}

// If a proxy changes the Host header, a form of the page looks like a form of another site.
// The origin must be trusted.
func TestFormNeedsTrustedOrigin(t *testing.T) {
	t.Parallel()
	const origin = "https://ops.example"
	for name, c := range map[string]struct {
		trusted []string
		origin  string
		status  int
	}{
		"trusted":     {[]string{"https://other.example", origin}, origin, http.StatusSeeOther},
		"not trusted": {nil, origin, http.StatusForbidden},
		"other site":  {[]string{origin}, "https://evil.example", http.StatusForbidden},
		"other port":  {[]string{origin}, origin + ":8443", http.StatusForbidden},
		"plain HTTP":  {[]string{origin}, "http://ops.example", http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(_ *fixture, config *admin.Config) { config.TrustedOrigins = c.trusted })
			d := f.die(1)[0]
			body := strings.NewReader(url.Values{"key": {d.Key.String()}, "action": {"discard"}}.Encode())
			request, err := http.NewRequest(http.MethodPost, f.url+"bulk", body)
			require.NoError(t, err)
			request.Header = http.Header{"Origin": {c.origin}, "Content-Type": {"application/x-www-form-urlencoded"}}
			response, err := http.DefaultTransport.RoundTrip(request) // follows no redirect
			page := f.read(c.status, response, err)
			if c.status == http.StatusForbidden {
				assert.Contains(t, page, "a proxy changes the Host header")
			}
		})
	}
}

// A user who may only read sees events without actions, and cannot send the forms.
func TestReadOnlyUserChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(_ *fixture, c *admin.Config) {
		c.ReadOnly = func(r *http.Request) bool { return r.Context().Value(staff{}) == "jo" }
		c.Observer.BodyOpened = func(*http.Request, webhook.Key) error { return nil }
		c.Observer.Changed = func(*http.Request, admin.Change) { assert.Fail(t, "an event was changed") }
	})
	d, w := f.die(1)[0].Key.String(), f.accept(waiting).Key.String()
	for address, page := range f.crawl() {
		assert.NotContains(t, page, "bulk?", address)
		assert.NotContains(t, page, ">Replay", address)
		assert.NotContains(t, page, ">Handle now", address)
	}
	for _, path := range []string{"bulk?action=replay", "bulk?action=discard&key=" + url.QueryEscape(d)} {
		response, err := http.Get(f.url + path)
		assert.Contains(t, f.read(http.StatusForbidden, response, err), "You may only read.")
	}
	for _, form := range []url.Values{
		{}, {"replay": {d}}, {"discard": {d}}, {"handle_now": {w}}, {"action": {"replay"}, "key": {d}}, {"action": {"discard"}, "until": {"9000000000000000.9"}},
	} {
		f.post(http.StatusForbidden, "bulk", form)
		f.post(http.StatusForbidden, "bulk?"+form.Encode(), nil)
	}
	assert.Contains(t, f.post(http.StatusOK, "event?key="+url.QueryEscape(d), url.Values{"discard": {d}}), receivertest.Canary, "BodyOpened decides about bodies")
	assert.Equal(t, 1, f.dead())
}

// Hosts protects from a host name that was made to resolve to this server.
func TestHostsRejectOtherNames(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hosts  []string
		host   string
		status int
	}{
		"by default":   {nil, "evil.example", http.StatusOK},
		"named":        {[]string{"10.0.0.5:8443", "ops.example"}, "OPS.example", http.StatusOK},
		"with a port":  {[]string{"10.0.0.5:8443"}, "10.0.0.5:8443", http.StatusOK},
		"another":      {[]string{"ops.example"}, "evil.example", http.StatusMisdirectedRequest},
		"another port": {[]string{"ops.example"}, "ops.example:8443", http.StatusMisdirectedRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(_ *fixture, config *admin.Config) { config.Hosts = c.hosts })
			d := f.die(1)[0]
			for _, path := range []string{"", "events", eventPath(d)} {
				request, err := http.NewRequest(http.MethodGet, f.url+path, nil)
				require.NoError(t, err)
				request.Host = c.host
				response, err := http.DefaultClient.Do(request)
				page := f.read(c.status, response, err)
				assert.Equal(t, c.status == http.StatusOK, strings.Contains(page, string(d.Type)), path)
			}
		})
	}
}

// Requests from another site have no effect.
func TestOtherSitesChangeNothing(t *testing.T) {
	t.Parallel()
	opened := 0
	f := newFixture(t, func(_ *fixture, c *admin.Config) {
		c.Observer.BodyOpened = func(*http.Request, webhook.Key) error { opened++; return nil }
	})
	d := f.die(1)[0]
	const form = "application/x-www-form-urlencoded"
	for name, c := range map[string]struct {
		header http.Header
		status int
	}{
		"another site":    {http.Header{"Sec-Fetch-Site": {"cross-site"}, "Content-Type": {form}}, 403},
		"sibling site":    {http.Header{"Sec-Fetch-Site": {"same-site"}, "Content-Type": {form}}, 403},
		"older browser":   {http.Header{"Origin": {"https://example.com"}, "Content-Type": {form}}, 403},
		"JSON":            {http.Header{"Sec-Fetch-Site": {"same-origin"}, "Content-Type": {"application/json"}}, 415},
		"text":            {http.Header{"Content-Type": {"text/plain"}}, 415},
		"no content type": {http.Header{}, 415},
	} {
		for _, path := range []string{eventPath(d), "bulk"} {
			body := strings.NewReader(url.Values{"key": {d.Key.String()}, "action": {"discard"}}.Encode())
			request, err := http.NewRequest(http.MethodPost, f.url+path, body)
			require.NoError(t, err)
			request.Header = c.header
			response, err := http.DefaultClient.Do(request)
			page := f.read(c.status, response, err)
			assert.Contains(t, page, "Nothing was done", name)
		}
	}
	for _, path := range []string{"bulk?action=discard&key=" + url.QueryEscape(d.Key.String()), "bulk?action=replay&done=1", "find?id=" + d.Key.EventID} {
		f.get(path)
	}
	f.get(eventPath(d))
	assert.Zero(t, opened)
	_, err := f.inbox.Open(t.Context(), d.Key)
	require.NoError(t, err, "the event must still be stored")
}

// Texts of the platform are never interpreted as markup.
func TestPagesEscapeMarkup(t *testing.T) {
	t.Parallel()
	const evil = `"><script>alert(1)</script>&amp;`
	f := newFixture(t, nil)
	d := f.accept(func(d *webhook.Delivery) {
		d.Type, d.ClinicID, d.Key.EventID, d.Key.IntegrationID = evil, evil, evil, evil
	})
	for address, page := range f.crawl() {
		assert.NotContains(t, strings.Replace(page, `<script src="./live.js" defer></script>`, "", 1), "<script", address)
	}
	page := f.get("events?clinic=" + url.QueryEscape(evil))
	assert.Contains(t, html.UnescapeString(page), evil)
	f.post(http.StatusOK, "bulk", url.Values{"key": {d.Key.String()}, "action": {"discard"}})
	_, err := f.inbox.Open(t.Context(), d.Key)
	require.ErrorIs(t, err, engine.ErrNotStored)
}

// A clinic's ID cannot turn the text around it.
func TestPagesEscapeReordering(t *testing.T) {
	t.Parallel()
	const turned = "\u202evil"
	stats := clinics{Failing: []reconcile.FailingClinic{{ClinicID: turned, Err: errAudit}}}
	f := newFixture(t, func(_ *fixture, c *admin.Config) {
		c.Observer.BodyOpened = func(*http.Request, webhook.Key) error { return nil }
		c.Reconcilers = map[string]func() reconcile.ClinicsStats{"us/sandbox": stats.Stats}
	})
	d := f.accept(func(d *webhook.Delivery) {
		d.Type, d.ClinicID, d.Key.EventID, d.Body = turned, turned, turned, []byte(strings.ReplaceAll(string(d.Body), receivertest.Canary, turned))
	})
	f.page.RunEnd(t.Context(), reconcile.Report{Missed: 1, Gaps: []reconcile.Gap{{EventID: turned}}, FailedDeliveries: []reconcile.FailedDelivery{{Key: d.Key, Type: turned}}}, nil)
	pages := map[string]string{"body": f.post(http.StatusOK, eventPath(d), nil)}
	for _, path := range []string{"", "events", eventPath(d), "bulk?action=replay", "runs"} {
		pages[path] = f.get(path)
	}
	for path, page := range pages {
		text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, "")
		assert.NotContains(t, text, turned, path)
		assert.Contains(t, text, `\u202evil`, path)
	}
}

func TestBadLinksShowError(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for path, status := range map[string]int{
		"nothing": 404, "a/b/c": 404, "accounts": 404, "event?key=" + url.QueryEscape("us/sandbox/evt_0/"): 404,
		"event": 400, "event?key=x": 400, "event?key=us/sandbox/1/&key=us/sandbox/2/": 400, "events?state=asleep": 400,
		"events?after=x": 400, "events?until=1": 400, "events?since=today": 400, "bulk": 400, "bulk?action=burn": 400, "bulk?action=replay&until=x": 400,
	} {
		response, err := http.Get(f.url + path)
		page := f.read(status, response, err)
		assert.Contains(t, page, "<h1>", path)
		assert.NotContains(t, page, "aria-current", path)
		style := regexp.MustCompile(`rel="stylesheet" href="([^"]*)"`).FindStringSubmatch(page)
		at, err := url.Parse(f.url + path)
		require.NoError(t, err)
		at, err = at.Parse(style[1])
		require.NoError(t, err)
		assert.Equal(t, f.url+"style.css", at.String(), path)
	}
	for method, path := range map[string]string{http.MethodPut: "bulk", http.MethodDelete: "event", http.MethodPost: "runs"} {
		request, err := http.NewRequest(method, f.url+path, strings.NewReader(""))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := http.DefaultClient.Do(request)
		f.read(http.StatusMethodNotAllowed, response, err)
		assert.Equal(t, "GET", response.Header.Get("Allow"), path)
	}
	bare := httptest.NewRecorder() // as routers pass it whose patterns match the path without a slash too
	http.StripPrefix("/ops/webhooks", f.page).ServeHTTP(bare, httptest.NewRequest(http.MethodGet, "/ops/webhooks?page=2", nil))
	assert.Equal(t, http.StatusTemporaryRedirect, bare.Code)
	assert.Equal(t, "webhooks/", bare.Header().Get("Location"))
	require.NoError(t, f.inbox.Close(t.Context()))
	response, err := http.Get(f.url)
	assert.Contains(t, f.read(500, response, err), webhook.ErrInboxClosed.Error())
}

var unavailable = webhook.Observation{Outcome: webhook.OutcomeUnavailable, Err: webhook.ErrInboxTimeout}

func newAlarm(t *testing.T, failures int) *webhook.Alarm {
	t.Helper()
	alarm, err := webhook.NewAlarm(webhook.AlarmConfig{Notify: func(context.Context, webhook.Outage) {}})
	require.NoError(t, err)
	for range failures {
		alarm.Observe(t.Context(), unavailable)
	}
	return alarm
}
