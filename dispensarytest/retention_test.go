package dispensarytest

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

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
	b.get("/events/"+events[1]).refused(404, "Not Found")
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
	for i := range table.All(b.fake.store.World.Integrations) {
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
