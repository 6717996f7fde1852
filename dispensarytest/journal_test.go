package dispensarytest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/httpapi"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

// onHead calls a function when the head of a response is sent.
type onHead struct {
	http.ResponseWriter
	call func(status int)
}

func (w onHead) WriteHeader(status int) {
	w.call(status)
	w.ResponseWriter.WriteHeader(status)
}

// Large responses leave before their handler returns. A test that reads the journal after a
// call must still find the call.
func TestJournalRecordsRequestBeforeResponse(t *testing.T) {
	t.Parallel()
	b := start(t)
	for path, operation := range map[string]string{
		"/api/catalog/products": "products.list", httpapi.AuthPath + "/oauth/authorize": "oauth.authorize", "/api/clinic/orders/x": "orders.get", "/api/nothing": "",
	} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer "+b.token)
		before, responded := len(b.fake.Journal.Requests()), 0
		b.fake.Handler().ServeHTTP(onHead{httptest.NewRecorder(), func(status int) {
			last, _ := lastRequest(b.fake)
			assert.Len(t, b.fake.Journal.Requests(), before+1)
			assert.Equal(t, operation, last.Operation)
			assert.Equal(t, status, last.Status)
			responded++
		}}, r)
		assert.Equal(t, 1, responded)
		assert.Len(t, b.fake.Journal.Requests(), before+1, "once")
	}
}

func TestCheckNoUnexpectedSuggestsNames(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.get("/catalog/products?page[sise]=50").ok(200)
	body := someone()
	body["mobil_number"] = "+15035550100"
	body["metadata"] = map[string]any{"id": "x", "idd": "y"}
	b.send("POST", "/clinic/patients", body).ok(201)
	b.send("PUT", "/clinic/patients/x", map[string]any{}).rejected(404, "Not Found")
	b.get("/catalogue").rejected(404, "Not Found")

	f := &verdict{TB: t}
	b.fake.Journal.CheckNoUnexpected(f)
	require.Len(t, f.failures, 1)
	for _, want := range []string{
		`"page[sise]" (did you mean "page[size]"?)`, `"mobil_number" (did you mean "mobile_number"?)`, `"metadata.idd"`,
		"this path has GET /clinic/patients/{id}, PATCH /clinic/patients/{id}", "GET /api/catalogue → 404",
	} {
		assert.Contains(t, f.failures[0], want)
	}
}

func TestJournalDropsOldestRequests(t *testing.T) {
	t.Parallel()
	b := start(t, WithTuning(Tuning{JournalLimit: 3}))
	for i := range 5 {
		b.get(fmt.Sprint("/nothing/", i))
	}
	var paths []string
	for _, r := range b.fake.Journal.Requests() {
		paths = append(paths, r.Path)
	}
	assert.Equal(t, []string{"/api/nothing/2", "/api/nothing/3", "/api/nothing/4"}, paths)
	assert.Equal(t, 5, b.fake.Journal.Requests()[2].Seq, "it also counts dropped requests")
	b.fake.Journal.Reset()
	assert.Empty(t, b.fake.Journal.Requests())
}

func TestRequestIDsFollowFromSeed(t *testing.T) {
	t.Parallel()
	one, two := start(t, WithTuning(Tuning{Seed: 7})), start(t, WithTuning(Tuning{Seed: 7}))
	seen := make(map[string]bool)
	for range 50 {
		id := one.get("/clinic").header.Get("X-Request-Id")
		assert.Equal(t, id, two.get("/clinic").header.Get("X-Request-Id"))
		assert.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, id)
		seen[id] = true
	}
	assert.Len(t, seen, 50)
}

func TestTLSRequiredRejectsPlainHTTP(t *testing.T) {
	t.Parallel()
	start(t, WithTuning(Tuning{TLSRequired: true})).get("/clinic").rejected(403, "HTTPS is required")
}

// The journal also lists unknown parameters of rejected requests.
func TestJournalListsParametersOfRejectedRequests(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	b.with("catalog:read").get("/clinic/orders?page[sise]=1").rejected(403, "scope")
	b.get("/clinic/orders?page[sise]=1&sort_by=price").rejected(422, "sort_by")
	lost := *b
	lost.token = "guess"
	lost.get("/clinic/orders?page[sise]=1").rejected(401, "invalid")
	for _, r := range b.fake.Journal.Requests() {
		assert.Equal(t, []model.Unread{{Name: "page[sise]", Near: "page[size]"}}, r.Unknown)
	}
}

func TestClosestMatchFindsTypos(t *testing.T) {
	t.Parallel()
	known := []string{"sort_by", "order_by", "created_at", "allergen_ids[]", "page[number]", "page[size]", "email"}
	for name, want := range map[string]string{
		"sortby": "sort_by", "orderby": "order_by", "create_at": "created_at", "created": "created_at", "allergen_ids": "allergen_ids[]",
		"allergen_ids[0]": "allergen_ids[]", "page": "page[number]", "page[num]": "page[number]", "e-mail": "email", "mail": "email",
		"limit": "", "x": "", "": "", "something else altogether": "",
	} {
		assert.Equal(t, want, closestmatch.To(name, known), name)
	}
	assert.Empty(t, closestmatch.To("email", nil))
	long := string(make([]byte, 1000))
	assert.Empty(t, closestmatch.To(long, known), "a long name has no match")
}

// A watcher is notified of every change that a page about the platform could show.
func TestChangesReportsEveryChange(t *testing.T) {
	t.Parallel()
	b := start(t, WithClock(frozen()))
	activate(b.t, b.fake)
	require.NoError(t, b.fake.Webhooks.RegisterHandler(http.NotFoundHandler()))
	patient := b.fake.Patients.All()[0].ID
	token := b.fake.Tokens.Issue(model.User{}).AccessToken
	var fault *FaultHandle
	var order model.Order
	for _, test := range []struct {
		what string
		do   func() error
	}{
		{"a request", func() error { b.get("/clinic").ok(200); return nil }},
		{"an unknown request", func() error { b.get("/nothing").rejected(404, "Not Found"); return nil }},
		{"an event", func() (err error) {
			order, _, err = b.fake.Orders.Place(patient, model.OrderCreate{})
			return err
		}},
		{"an action without event", func() error { _, err := b.fake.Orders.Refund(order.ID, 0); return err }},
		{"a move of the clock", func() error { b.fake.Clock.Advance(time.Minute); return nil }},
		{"a token", func() error { b.fake.Tokens.Issue(model.User{}); return nil }},
		{"the end of a token", func() error { return b.fake.Tokens.Expire(token) }},
		{"more scopes", func() error { return b.fake.Tokens.ExtendScopes("patients:write") }},
		{"the end of a consent", func() error { b.fake.Tokens.Revoke(model.User{}); return nil }},
		{"the end of all tokens", func() error { b.fake.Tokens.InvalidateAll(); return nil }},
		{"a fault", func() error {
			fault = b.fake.Fault(model.Fault{Effect: model.EffectDropAfterCommit, Times: 1})
			return nil
		}},
		{"the end of a fault", func() error { fault.Remove(); return nil }},
		{"a reading", func() error { return b.fake.SetBehavior(behavior.ResumeAfterEnableResumed) }},
		{"an endpoint", func() error { return b.fake.Webhooks.Register("http://127.0.0.1:1/") }},
		{"its return", func() error { return b.fake.Webhooks.Enable() }},
		{"a new journal", func() error { b.fake.Journal.Reset(); return nil }},
		{"a reset", func() error { b.fake.Reset(); return nil }},
	} {
		next, open := b.fake.Changes()
		again, _ := b.fake.Changes()
		assert.True(t, open)
		assert.Equal(t, next, again, "concurrent watchers share a channel")
		require.NoError(t, test.do(), test.what)
		select {
		case <-next:
		case <-time.After(time.Minute):
			require.FailNow(t, "no notification of "+test.what)
		}
	}
}

// A read is not a change, and neither is a change of another platform on the same clock.
func TestChangesIgnoresReads(t *testing.T) {
	t.Parallel()
	clock := frozen()
	b, other := start(t, WithClock(clock)), start(t, WithClock(clock))
	next, _ := b.fake.Changes()
	other.get("/clinic").ok(200)
	b.fake.Patients.All()
	b.fake.Webhooks.Deliveries()
	select {
	case <-next:
		assert.Fail(t, "a read must not be a change")
	default:
	}
	require.NoError(t, other.fake.Close())
	clock.Advance(time.Second)
	<-next

	last, _ := b.fake.Changes()
	require.NoError(t, b.fake.Close())
	<-last
	_, open := b.fake.Changes()
	assert.False(t, open)
}

// The journal stores bodies on request, without tokens, codes and secrets.
func TestJournalBodiesContainNoTokens(t *testing.T) {
	t.Parallel()
	b := start(t, WithTuning(Tuning{Bodies: true}))
	body := someone()
	b.send("POST", "/clinic/patients", body).ok(201)
	last, _ := lastRequest(b.fake)
	for _, kept := range [][]byte{last.RequestBody, last.ResponseBody} {
		assert.Contains(t, string(kept), fmt.Sprint(body["email"]))
	}

	token := b.fake.Tokens.Issue(model.User{})
	b.renew(token.RefreshToken).ok(200)
	last, _ = lastRequest(b.fake)
	assert.Contains(t, string(last.RequestBody), `"refresh_token":"***"`)
	assert.Contains(t, string(last.ResponseBody), `"access_token":"***"`)
	b.fake.CheckNoLeak(t, string(last.RequestBody), string(last.ResponseBody))

	b.fetch("POST", b.fake.Site().BaseURL+"/oauth/token", "refresh_token="+token.RefreshToken)
	last, _ = lastRequest(b.fake)
	b.fake.CheckNoLeak(t, string(last.RequestBody))

	large := someone()
	large["personal_message"] = strings.Repeat("x", 100_000)
	b.send("POST", "/clinic/patients", large)
	last, _ = lastRequest(b.fake)
	assert.Len(t, last.RequestBody, 16<<10)

	none := start(t)
	none.send("POST", "/clinic/patients", someone()).ok(201)
	last, _ = lastRequest(none.fake)
	assert.Empty(t, last.RequestBody)
	assert.Empty(t, last.ResponseBody)
}

func TestEventsExpireAfterThirtyDays(t *testing.T) {
	t.Parallel()
	b, _ := hooked(t, nil)
	activated := b.fake.Events()[0]
	_, sent := b.place()
	b.fake.Clock.Advance(time.Hour)
	require.NoError(t, b.fake.Webhooks.Register("https://receiver.dispensary.test/webhooks", model.EventPatientCreated))
	_, skipped := b.place()
	require.Len(t, b.fake.Webhooks.Deliveries(), 1)
	require.Len(t, notSent(b.fake), 2)

	b.fake.Clock.Advance(store.Retention - time.Hour)
	assert.Equal(t, []string{activated.ID, sent.ID, skipped.ID}, idsOf(b.fake.Events()))
	b.fake.Clock.Advance(time.Second)
	assert.Equal(t, []string{skipped.ID}, idsOf(b.fake.Events()))
	assert.Empty(t, b.fake.Webhooks.Deliveries())
	b.fake.Clock.Advance(time.Hour)
	assert.Empty(t, b.fake.Events())
	assert.Empty(t, notSent(b.fake))
	require.ErrorContains(t, b.fake.Webhooks.WaitDelivered(t.Context(), sent.ID), "the event is unknown")
}

func idsOf(events []model.Event) (ids []string) {
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}

func TestEventLimitDropsOldestEvents(t *testing.T) {
	t.Parallel()
	b, _ := hooked(t, nil, WithTuning(Tuning{EventLimit: 3}))
	var events []string
	for range 5 {
		_, e := b.place()
		events = append(events, e.ID)
		b.fake.Clock.Advance(time.Second)
	}
	assert.Equal(t, events[2:], idsOf(b.fake.Events()))
	assert.Len(t, b.fake.Webhooks.Deliveries(), 3)
	b.get("/events/"+events[1]).rejected(404, "Not Found")
	again := restarted(t, b.fake)
	assert.Equal(t, events[2:], idsOf(again.Events()))
	_, err := Start(WithTuning(Tuning{EventLimit: -1}))
	require.ErrorContains(t, err, "Tuning.EventLimit")
}

// Due deliveries are made, regardless of how many events follow.
func TestDueDeliveriesAreKept(t *testing.T) {
	t.Parallel()
	status := http.StatusInternalServerError
	b, hook := hooked(t, func(_ int, w http.ResponseWriter, challenge string) {
		w.WriteHeader(status)
		acknowledge(w, challenge)
	}, WithTuning(Tuning{EventLimit: 3}))
	var events []string
	for range 10 {
		_, e := b.place()
		events = append(events, e.ID)
		b.fake.Clock.Advance(0)
	}
	assert.Len(t, b.fake.Webhooks.Deliveries(), 10)
	assert.Len(t, b.fake.Events(), 3)
	status = http.StatusOK
	b.fake.Clock.Advance(time.Minute)
	assert.Len(t, hook.all(), 20)
	require.Len(t, b.fake.Webhooks.Deliveries(), 3)
	for i, d := range b.fake.Webhooks.Deliveries() {
		assert.Equal(t, events[7+i], d.EventID)
	}
}

func TestDeliveryListsMatchOracle(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	turn := 0
	b, _ := hooked(t, func(_ int, w http.ResponseWriter, challenge string) {
		if turn++; turn%3 == 0 {
			w.WriteHeader(http.StatusInternalServerError)
		}
		acknowledge(w, challenge)
	}, WithTuning(Tuning{WorldSize: model.WorldSize{Clinics: 2, Patients: 40}, Integrations: 2}), WithBehavior(behavior.DeliveryConditionsOff))
	b.crowd(200, 5*24*time.Hour)
	b.token = b.fake.Tokens.Issue(model.User{}).AccessToken
	clinics := make(map[string]string) // clinic of each integration
	for _, i := range b.fake.store.World.Integrations.Rows {
		clinics[i.ID] = i.ClinicID
	}
	var some, days []string
	for n, e := range b.fake.Events() {
		if n%10 == 0 {
			some = append(some, e.ID, "", "", "", "", "", "", "", "")
		}
	}
	at := func(d model.Delivery) time.Time { return d.Attempts[len(d.Attempts)-1].At }
	for n := range 7 {
		day := b.fake.Clock.Now().AddDate(0, 0, -n).Format(time.DateOnly)
		days = append(days, "", "", day, ">"+day, "<"+day)
	}
	latest := func(a, b model.Delivery) int { return at(a).Compare(at(b)) }
	mine := b.fake.Users()[0].ClinicID
	asks(b, oracle[model.Delivery]{
		rows: b.fake.Webhooks.Deliveries(), id: func(d model.Delivery) string { return d.ID },
		keep: func(d model.Delivery, q url.Values) bool {
			return len(d.Attempts) > 0 && clinics[d.IntegrationID] == mine && inDays(q.Get("attempted_at"), at(d)) &&
				(q.Get("event_id") == "" || q.Get("event_id") == d.EventID) &&
				(q.Get("successfully_delivered") == "" || q.Get("successfully_delivered") == strconv.FormatBool(d.Delivered))
		},
		less: map[string]func(a, b model.Delivery) int{
			"": latest, "attempted_at": latest, "event_id": func(a, b model.Delivery) int { return strings.Compare(a.EventID, b.EventID) },
		},
	}, "/webhooks/deliveries", "webhook_deliveries", map[string][]string{
		"sort_by": {"", "", "event_id", "attempted_at"}, "order_by": {"", "ASC", "DESC"},
		"attempted_at": days, "event_id": some, "successfully_delivered": {"", "", "true", "false"},
	})
}
