package probe

import (
	"strconv"
	"strings"
	"time"
)

// Why most of these points do not show.
const (
	onlyPeople   = "it shows in events, which only actions of people on the platform make"
	onlyReceiver = "it shows only to the endpoint that receives webhooks"
)

// logPoints are about events and webhooks. Some have left something that can be read,
// where the sandbox had events and an endpoint before.
func logPoints() []point {
	return []point{
		notObservable("plan-created-event", onlyPeople, "on-activation", "on-creation"),
		notObservable("event-times", onlyPeople+", two of them within a millisecond", "apart", "as-they-fall"),
		notObservable("probe", onlyReceiver, "off", "on-registration", "before-each"),
		notObservable("probe-signature", onlyReceiver, "signed", "unsigned"),
		notObservable("delivery-conditions", onlyReceiver, "enforced", "off"),
		notObservable("delivery-timeout", onlyReceiver, "2s", "1s", "5s"),
		notObservable("webhook-envelope", onlyReceiver, "event", "event-payload"),
		notObservable("resume-after-enable", "an endpoint has to be disabled and enabled in the dashboard", "dropped", "resumed"),
		{"unwrapped-event-data", []string{"orders-and-new-products", "none"}, (*session).unwrappedEventData},
		{"retry-schedule", []string{"1m-5m-30m-1h-5h", "doubling"}, (*session).retrySchedule},
		{"delivery-log", []string{"delivery", "attempt"}, (*session).deliveryLog},
		{"unanswered-status", []string{"null", "zero"}, (*session).unansweredStatus},
		{"product-event-clinic", []string{"absent", "present"}, (*session).productEventClinic},
	}
}

func (s *session) unwrappedEventData() Finding {
	list := s.get("/events/orders", "page[size]", "1")
	if !list.ok() {
		return unexpected(list)
	}
	rows := list.rows("events")
	if len(rows) == 0 {
		return hidden("there was no order in the last 30 days", list)
	}
	a := s.get("/events/" + textAt(rows[0], "id"))
	_, wrapped := a.at("event", "data", "order")
	_, bare := a.at("event", "data", "id")
	switch {
	case wrapped:
		return seen("none", a)
	case bare:
		return seen("orders-and-new-products", a)
	}
	return ambiguous("the data of an order's event is not known", a)
}

// deliveries reads the log of deliveries, once.
func (s *session) deliveries() answer { return s.list("/webhooks/deliveries", "100") }

// eachDelivery looks through the log for a delivery that shows a point.
func (s *session) eachDelivery(without string, look func(row any) (variant string)) Finding {
	a := s.deliveries()
	if !a.ok() {
		return unexpected(a)
	}
	for _, row := range a.rows("webhook_deliveries") {
		if variant := look(row); variant != "" {
			return seen(variant, a)
		}
	}
	return hidden("the log of deliveries has "+without, a)
}

func attemptNumber(row any) int {
	found, _ := member(row, "attempt_number")
	number, _ := found.(float64)
	return int(number)
}

// retrySchedule reads how long after an attempt the next one is due.
func (s *session) retrySchedule() Finding {
	waits := map[string][]int{"1m-5m-30m-1h-5h": {1, 5, 30, 60, 300}, "doubling": {5, 10, 20, 40, 80}} // minutes
	return s.eachDelivery("none that is to be attempted again", func(row any) string {
		last, err := time.Parse(time.RFC3339, textAt(row, "attempted_at"))
		next, wrong := time.Parse(time.RFC3339, textAt(row, "next_attempt_at"))
		n := attemptNumber(row)
		if err != nil || wrong != nil || n < 1 || n > 5 {
			return ""
		}
		wait := next.Sub(last)
		for variant, minutes := range waits {
			if meant := time.Duration(minutes[n-1]) * time.Minute; (wait - meant).Abs() <= meant/5 {
				return variant
			}
		}
		return "a wait of " + wait.Round(time.Second).String() + " after attempt " + strconv.Itoa(n)
	})
}

// deliveryLog looks at a delivery that was attempted more than once.
func (s *session) deliveryLog() Finding {
	of := func(row any) string {
		return textAt(row, "event_payload", "event", "id") + " " + textAt(row, "event_payload", "event", "integration_id")
	}
	rows := s.deliveries().rows("webhook_deliveries")
	complete := s.deliveries().meta("total_count") <= len(rows)
	return s.eachDelivery("none that was attempted twice", func(row any) string {
		if attemptNumber(row) < 2 {
			return ""
		}
		for _, other := range rows {
			if attemptNumber(other) < attemptNumber(row) && of(other) == of(row) {
				return "attempt"
			}
		}
		if complete {
			return "delivery"
		}
		return ""
	})
}

func (s *session) unansweredStatus() Finding {
	return s.eachDelivery("none that nothing answered", func(row any) string {
		status, _ := member(row, "response_status")
		switch {
		case textAt(row, "response_errors") == "" || textAt(row, "attempted_at") == "":
			return ""
		case status == nil:
			return "null"
		case status == 0.0:
			return "zero"
		}
		return ""
	})
}

func (s *session) productEventClinic() Finding {
	return s.eachDelivery("none of a product's event", func(row any) string {
		if !strings.HasPrefix(textAt(row, "event_payload", "event", "type"), "product.") {
			return ""
		}
		if textAt(row, "event_payload", "event", "clinic_id") == "" {
			return "absent"
		}
		return "present"
	})
}
