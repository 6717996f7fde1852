package probe

import (
	"strconv"
	"strings"
	"time"
)

// Reasons for points that cannot be observed.
const (
	onlyPeople   = "only events show it, and they need actions on the platform's pages"
	onlyReceiver = "only a webhook endpoint can see it"
)

// logPoints returns the points about events and webhooks. Some can be read from the logs, if
// the sandbox had events and an endpoint before the run.
func logPoints() []point {
	return []point{
		notObservable("plan-created-event", onlyPeople, "on-activation", "on-creation"),
		notObservable("event-times", onlyPeople+", two of them within a millisecond", "apart", "as-they-fall"),
		notObservable("probe", onlyReceiver, "off", "on-registration", "before-each"),
		notObservable("probe-signature", onlyReceiver, "signed", "unsigned"),
		notObservable("delivery-conditions", onlyReceiver, "enforced", "off"),
		notObservable("delivery-timeout", onlyReceiver, "2s", "1s", "5s"),
		notObservable("webhook-envelope", onlyReceiver, "event", "event-payload"),
		notObservable("resume-after-enable", "needs an endpoint to be disabled and enabled in the dashboard", "dropped", "resumed"),
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
		return hidden("the last 30 days had no order", list)
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
	return ambiguous("the data of an order event has an unknown form", a)
}

// deliveries reads the delivery log, once.
func (s *session) deliveries() answer { return s.list("/webhooks/deliveries", "100") }

// eachDelivery searches the log for a delivery that shows a point. look returns "" if a row
// does not show it. without completes the reason if no row does.
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
	return hidden("the delivery log has "+without, a)
}

func attemptNumber(row any) int {
	found, _ := member(row, "attempt_number")
	number, _ := found.(float64)
	return int(number)
}

// retrySchedule compares the time of an attempt with the time of the next one.
func (s *session) retrySchedule() Finding {
	waits := map[string][]int{"1m-5m-30m-1h-5h": {1, 5, 30, 60, 300}, "doubling": {5, 10, 20, 40, 80}} // minutes
	return s.eachDelivery("no delivery with a pending retry", func(row any) string {
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

// deliveryLog searches for a delivery with more than one attempt.
func (s *session) deliveryLog() Finding {
	of := func(row any) string {
		return textAt(row, "event_payload", "event", "id") + " " + textAt(row, "event_payload", "event", "integration_id")
	}
	rows := s.deliveries().rows("webhook_deliveries")
	complete := s.deliveries().meta("total_count") <= len(rows)
	return s.eachDelivery("no delivery with two attempts", func(row any) string {
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
	return s.eachDelivery("no delivery without a response", func(row any) string {
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
	return s.eachDelivery("no delivery of a product event", func(row any) string {
		if !strings.HasPrefix(textAt(row, "event_payload", "event", "type"), "product.") {
			return ""
		}
		if textAt(row, "event_payload", "event", "clinic_id") == "" {
			return "absent"
		}
		return "present"
	})
}
