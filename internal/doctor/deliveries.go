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

// mostDeliveries bounds how much of the delivery log is read, the newest first.
const mostDeliveries = 2000

// switchOff is for how long attempts fail until the platform switches an endpoint off.
// API section: "Webhooks" 8.
const switchOff = 24 * time.Hour

// nearSwitchOff is when there is hardly time left to fix anything.
const nearSwitchOff = 12 * time.Hour

// activation checks that the platform sends events at all. API sections: "Clinic",
// "Webhooks" 6.
func (r *run) activation(ctx context.Context) Row {
	client, err := r.caller(r.access)
	if err != nil {
		return fail("no client can be made", "it is unknown if webhooks are sent", "correct the site")
	}
	clinic, err := client.Clinic.Get(ctx)
	switch {
	case errors.Is(err, api.ErrForbidden):
		return skip("the token lacks the scope clinic:read")
	case err != nil:
		return fail(reason(err), "it is unknown if webhooks are sent", "wait and run this again")
	case !clinic.IntegrationActivatedAt.IsZero():
		return pass("since %s", clinic.IntegrationActivatedAt.UTC().Format(time.DateOnly))
	}
	return fail("integration_activated_at is null", "the platform sends no webhook",
		"configure the clinic key, so that calls send it; the first one activates the integration")
}

func (r *run) deliveryLog(ctx context.Context) Row {
	const consequence = "missed webhooks cannot be found"
	client, err := r.caller(r.access)
	if err != nil {
		return fail("no client can be made", consequence, "correct the site")
	}
	for delivery, err := range client.Events.Deliveries.List(events.DeliveryListOptions{
		SortBy: events.DeliverySortAttempt, SortOrder: api.SortOrderDescending,
	}).Limit(mostDeliveries).All(ctx) {
		switch {
		case errors.Is(err, api.ErrForbidden):
			return warn("the token has no scope for it", consequence, "use the token of a user with catalog:read")
		case err != nil:
			return fail(reason(err), consequence, "wait and run this again")
		}
		r.deliveries = append(r.deliveries, delivery)
	}
	if len(r.deliveries) == mostDeliveries {
		return pass("the latest %d deliveries are looked at", mostDeliveries)
	}
	return pass("%d deliveries in 30 days", len(r.deliveries))
}

func (r *run) deliveryFailures(context.Context) Row {
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
	consequence := "they are tried again, up to six times in all"
	if given > 0 {
		consequence = fmt.Sprintf("%d events are not sent any more and stay in the event lists for 30 days, the others are tried again", given)
	}
	return warn(fmt.Sprintf("%d of %d: %s", total, len(r.deliveries), strings.Join(texts, ", ")), consequence,
		"find the reason in the rows above and in the log of the endpoint; run package reconcile, which fetches what was missed")
}

// failureOf says in fixed words why a delivery failed. The body and the text of errors
// may hold anything.
func failureOf(d events.Delivery) string {
	switch {
	case d.ResponseStatus == 0:
		return "without an answer"
	case d.ResponseStatus == 200 || d.ResponseStatus == 201:
		return "without the challenge token"
	case d.ResponseStatus == 401 || d.ResponseStatus == 403:
		return fmt.Sprintf("refused with %d, as wrong signatures are", d.ResponseStatus)
	}
	return fmt.Sprintf("answered %d", d.ResponseStatus)
}

// deliverySwitchOff looks at the attempts since the last success.
func (r *run) deliverySwitchOff(context.Context) Row {
	const consequence = "the platform sends nothing to the endpoint until it is switched on by hand"
	const fix = "fix what the row \"delivery failures\" names, then switch the endpoint on in the developer dashboard, and run package reconcile"
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
			return fail("the last answers include 410: the endpoint is switched off, or was", consequence, "answer 503 in place of 410; "+fix)
		}
		// The log has the latest attempt: the first one was when the event came.
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
	seen := fmt.Sprintf("nothing but failures for %s, until %s ago", days(age), days(r.config.Now().Sub(last)))
	switch {
	case last.IsZero():
		return pass("the latest attempts succeeded, or there were none")
	case age >= switchOff:
		return fail(seen+": the endpoint is switched off by now", consequence, fix)
	case age >= nearSwitchOff:
		return fail(seen+": after 24 h the endpoint is switched off", consequence, fix)
	}
	return warn(seen+": after 24 h the endpoint is switched off", consequence, fix)
}

// deliveryOrder counts the events that arrived after a newer one of the same object.
func (r *run) deliveryOrder(context.Context) Row {
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
		return pass("%d events came in order", total)
	case r.config.AnyOrder:
		return pass("%d of %d events came after a newer one of the same object, which the integration allows for", late, total)
	}
	return warn(fmt.Sprintf("%d of %d events came after a newer one of the same object", late, total),
		"a handler that takes the latest to arrive for the latest goes back in time",
		"set Order and Stale of webhook.Work, or read the object from the API; then set Config.AnyOrder")
}
