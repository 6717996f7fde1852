package probe

import (
	"strconv"
	"strings"
	"time"
)

// listPoints returns the points that lists show.
func listPoints() []point {
	return []point{
		{"default-page-size", []string{"25", "20", "2"}, observeDefaultPageSize},
		{"oversized-page", []string{"clamped", "rejected"}, observeOversizedPage},
		{"page-beyond-last", []string{"empty", "not-found"}, observePageBeyondLast},
		{"array-filters", []string{"all", "any"}, observeArrayFilters},
		{"vendor-backorder", []string{"unavailable", "backordered"}, observeVendorBackorder},
	}
}

func observeDefaultPageSize(s *session) Finding {
	a := s.get("/catalog/products")
	switch n := len(a.rows("products")); {
	case !a.ok():
		return unexpected(a)
	case a.meta("total_count") <= n:
		return hidden("the sandbox has only "+strconv.Itoa(n)+" products, on one page", a)
	default:
		return seen(strconv.Itoa(n), a)
	}
}

func observeOversizedPage(s *session) Finding {
	a := s.get("/catalog/products", "page[size]", "101")
	f := decide(a, "clamped", "rejected")
	switch {
	case !a.ok():
	case len(a.rows("products")) > 100:
		return ambiguous("a request for 101 products returned more than 100", a)
	case a.meta("total_count") <= 100:
		f.Why = "the request is accepted, but the limit of 100 shows only with more products"
	}
	return f
}

func observePageBeyondLast(s *session) Finding {
	first := s.get("/catalog/brands")
	if !first.ok() {
		return unexpected(first)
	}
	a := s.get("/catalog/brands", "page[number]", strconv.Itoa(max(first.meta("total_pages"), 1)+1))
	if a.ok() && len(a.rows("brands")) > 0 {
		return ambiguous("the page after the last one has brands", a)
	}
	return decide(a, "empty", "not-found")
}

// maxIngredients is the largest number of ingredients to search for.
const maxIngredients = 12

// observeArrayFilters counts the products of two ingredients separately and together. If the filter
// narrows, both find at most as many products as the rarer one. If it widens, they find at
// least as many as the more common one.
func observeArrayFilters(s *session) Finding {
	list := s.get("/catalog/ingredients", "page[size]", strconv.Itoa(maxIngredients))
	if !list.ok() {
		return unexpected(list)
	}
	const path, filter = "/catalog/search/products", "ingredient_ids[]"
	var last platformResponse
	var lastID string
	for _, row := range list.rows("ingredients") {
		id := textAt(row, "id")
		one := s.get(path, filter, id, "page[size]", "1")
		if !one.ok() {
			return unexpected(one)
		}
		if one.meta("total_count") == 0 {
			continue
		}
		if lastID != "" {
			both := s.get(path, filter, lastID, filter, id, "page[size]", "1")
			few, many := min(one.meta("total_count"), last.meta("total_count")), max(one.meta("total_count"), last.meta("total_count"))
			switch n := both.meta("total_count"); {
			case !both.ok():
				return unexpected(both)
			case n <= few && n < many:
				return seen("all", last, one, both)
			case n >= many && n > few:
				return seen("any", last, one, both)
			case n != few:
				return ambiguous("a search for two ingredients matches neither variant", last, one, both)
			}
		}
		last, lastID = one, id
	}
	return hidden("found no two ingredients that distinguish the variants", list)
}

// maxProducts is the largest number of products to read one by one.
const maxProducts = 40

// observeVendorBackorder searches for a product with a variant of this status and no available or
// otherwise backordered variant.
func observeVendorBackorder(s *session) Finding {
	looked := 0
	for page, more := 1, true; more && page <= 3; page++ {
		list := s.get("/catalog/products", "page[size]", "100", "page[number]", strconv.Itoa(page))
		if !list.ok() {
			return unexpected(list)
		}
		for _, row := range list.rows("products") {
			if textAt(row, "status") == "available" {
				continue
			}
			if looked++; looked > maxProducts {
				break
			}
			a := s.get("/catalog/products/" + textAt(row, "id"))
			if a.ok() && onlyVendorBackorder(a) {
				return seen(a.text("product", "status"), a)
			}
		}
		more = list.meta("total_pages") > page && looked <= maxProducts
	}
	return hidden("found no product with only a vendor backorder")
}

func onlyVendorBackorder(a platformResponse) bool {
	found, _ := a.at("product", "variants")
	variants, _ := found.([]any)
	meant := false
	for _, v := range variants {
		switch textAt(v, "status") {
		case "vendor backorder":
			meant = true
		case "available", "backordered":
			return false
		}
	}
	return meant
}

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
		{"unwrapped-event-data", []string{"orders-and-new-products", "none"}, observeUnwrappedEventData},
		{"retry-schedule", []string{"1m-5m-30m-1h-5h", "doubling"}, observeRetrySchedule},
		{"delivery-log", []string{"delivery", "attempt"}, observeDeliveryLog},
		{"unanswered-status", []string{"null", "zero"}, observeUnansweredStatus},
		{"product-event-clinic", []string{"absent", "present"}, observeProductEventClinic},
	}
}

func observeUnwrappedEventData(s *session) Finding {
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
func (s *session) deliveries() platformResponse { return s.list("/webhooks/deliveries", "100") }

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

// observeRetrySchedule compares the time of an attempt with the time of the next one.
func observeRetrySchedule(s *session) Finding {
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

// observeDeliveryLog searches for a delivery with more than one attempt.
func observeDeliveryLog(s *session) Finding {
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

func observeUnansweredStatus(s *session) Finding {
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

func observeProductEventClinic(s *session) Finding {
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
