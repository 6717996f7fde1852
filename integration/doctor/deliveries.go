package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// mostDeliveries is the largest number of deliveries read from the log, newest first.
const mostDeliveries = 2000

// switchOff is the duration of failures after which the platform disables an endpoint.
// API section: "Webhooks" 8.
const switchOff = 24 * time.Hour

// nearSwitchOff is the duration of failures that leaves too little time for a fix.
const nearSwitchOff = 12 * time.Hour

// checkActivation checks that the platform sends events at all. API sections: "Clinic", "Webhooks" 6.
func checkActivation(ctx context.Context, r *run) Row {
	client, err := r.caller(r.access)
	if err != nil {
		return fail("cannot create a client", "it is unknown whether the platform sends webhooks", "correct the URLs of the site")
	}
	clinic, err := client.Clinic.Get(ctx)
	switch {
	case errors.Is(err, api.ErrForbidden):
		return skip("the token lacks the scope clinic:read")
	case err != nil:
		return fail(reason(err), "it is unknown whether the platform sends webhooks", "wait and run this again")
	case !clinic.IntegrationActivatedAt.IsZero():
		return pass("active since %s", clinic.IntegrationActivatedAt.UTC().Format(time.DateOnly))
	}
	return fail("integration_activated_at is null", "the platform sends no webhooks",
		"configure the clinic key; the first call that sends it activates the integration")
}

func checkDeliveryLog(ctx context.Context, r *run) Row {
	const consequence = "missed webhooks cannot be found"
	client, err := r.caller(r.access)
	if err != nil {
		return fail("cannot create a client", consequence, "correct the URLs of the site")
	}
	for delivery, err := range client.Events.Deliveries.List(events.DeliveryListOptions{
		SortBy: events.DeliverySortAttempt, SortOrder: api.SortOrderDescending,
	}).Limit(mostDeliveries).All(ctx) {
		switch {
		case errors.Is(err, api.ErrForbidden):
			return warn("the token lacks the scope to read it", consequence, "use the token of a user with catalog:read")
		case err != nil:
			return fail(reason(err), consequence, "wait and run this again")
		}
		r.deliveries = append(r.deliveries, delivery)
	}
	if len(r.deliveries) == mostDeliveries {
		return pass("contains at least %d deliveries; checks use the latest", mostDeliveries)
	}
	return pass("%d deliveries in 30 days", len(r.deliveries))
}

func checkDeliveryFailures(_ context.Context, r *run) Row {
	counts := map[string]int{}
	var given, total int
	for _, d := range r.deliveries {
		if d.SuccessfullyDelivered {
			continue
		}
		total++
		counts[failureOf(d)]++
		if d.NextAttemptAt.IsZero() {
			given++
		}
	}
	if total == 0 {
		return pass("none")
	}
	var texts []string
	for text, n := range counts {
		texts = append(texts, fmt.Sprintf("%d %s", n, text))
	}
	slices.Sort(texts)
	consequence := "the platform retries them, up to six attempts each"
	if given > 0 {
		consequence = fmt.Sprintf("the platform does not retry %d of the events, which stay in the event lists for 30 days; it retries the others", given)
	}
	return warn(fmt.Sprintf("%d of %d: %s", total, len(r.deliveries), strings.Join(texts, ", ")), consequence,
		"find the reason in the rows above and in the log of the endpoint; run package reconcile to fetch missed events")
}

// failureOf returns a fixed text for the reason of a failed delivery. Bodies and error texts may
// contain secrets.
func failureOf(d events.Delivery) string {
	switch {
	case d.ResponseStatus == 0:
		return "without a response"
	case d.ResponseStatus == 200 || d.ResponseStatus == 201:
		return "without the challenge token"
	case d.ResponseStatus == 401 || d.ResponseStatus == 403:
		return fmt.Sprintf("rejected with %d, like a wrong signature", d.ResponseStatus)
	}
	return fmt.Sprintf("with status %d", d.ResponseStatus)
}

// checkDeliverySwitchOff checks the attempts since the last success.
func checkDeliverySwitchOff(_ context.Context, r *run) Row {
	const consequence = "the platform sends no events to the endpoint until you enable it manually"
	const fix = "fix the faults in the row \"delivery failures\", then enable the endpoint in the developer dashboard, and run package reconcile"
	var success, last time.Time
	for _, d := range r.deliveries {
		if d.SuccessfullyDelivered && d.AttemptedAt.After(success) {
			success = d.AttemptedAt.Time
		}
	}
	var since time.Time
	for _, d := range r.deliveries {
		if d.SuccessfullyDelivered || !d.AttemptedAt.After(success) {
			continue
		}
		if d.ResponseStatus == 410 {
			return fail("recent responses include 410, so the endpoint is or was disabled", consequence, "respond with 503 instead of 410; "+fix)
		}
		// The log has the latest attempt only. The first one followed the creation of the event.
		first := d.AttemptedAt.Time
		if e, err := d.Event(); err == nil && !e.CreatedAt.IsZero() {
			first = e.CreatedAt.Time
		}
		if first.Before(success) {
			first = success
		}
		if since.IsZero() || first.Before(since) {
			since = first
		}
		if d.AttemptedAt.After(last) {
			last = d.AttemptedAt.Time
		}
	}
	age := last.Sub(since)
	seen := fmt.Sprintf("only failures for %s, until %s ago", days(age), days(r.config.Now().Sub(last)))
	switch {
	case last.IsZero():
		return pass("no failure since the last success")
	case age >= switchOff:
		return fail(seen+": the endpoint is now disabled", consequence, fix)
	case age >= nearSwitchOff:
		return fail(seen+": the platform disables the endpoint after 24 h", consequence, fix)
	}
	return warn(seen+": the platform disables the endpoint after 24 h", consequence, fix)
}

// checkDeliveryOrder counts the events that arrived after a newer event of the same object.
func checkDeliveryOrder(_ context.Context, r *run) Row {
	type arrived struct{ created, at time.Time }
	byKey := map[webhook.OrderingKey][]arrived{}
	total := 0
	for _, d := range r.deliveries {
		e, err := d.Event()
		if !d.SuccessfullyDelivered || err != nil {
			continue
		}
		key := webhook.ByObject(webhook.Delivery{Key: webhook.Key{Environment: r.environment(), EventID: e.ID, IntegrationID: e.IntegrationID}}, e)
		byKey[key] = append(byKey[key], arrived{e.CreatedAt.Time, d.AttemptedAt.Time})
		total++
	}
	late := 0
	for key, list := range byKey {
		if key == "" {
			continue
		}
		slices.SortFunc(list, func(a, b arrived) int { return a.created.Compare(b.created) })
		for i, one := range list {
			if slices.ContainsFunc(list[i+1:], func(newer arrived) bool { return newer.created.After(one.created) && newer.at.Before(one.at) }) {
				late++
			}
		}
	}
	switch {
	case late == 0:
		return pass("%d events arrived in order", total)
	case r.config.AnyOrder:
		return pass("%d of %d events arrived after a newer event of the same object, and the integration allows it", late, total)
	}
	return warn(fmt.Sprintf("%d of %d events arrived after a newer event of the same object", late, total),
		"a handler that stores the data of each event replaces newer data with older data",
		"set Order and Stale of webhook.Work, or read the object from the API; then add --any-order")
}
