package probe

import (
	"fmt"
	"net/http"
	"strconv"
)

// seen returns the finding that the responses show variant.
func seen(variant string, by ...answer) Finding {
	return Finding{Verdict: Seen, Variant: variant, RequestIDs: idsOf(by)}
}

// ambiguous returns the finding that the responses do not decide a point.
func ambiguous(why string, by ...answer) Finding {
	return Finding{Verdict: Ambiguous, Why: why, RequestIDs: idsOf(by)}
}

// hidden returns the finding that a point cannot be observed.
func hidden(why string, by ...answer) Finding {
	return Finding{Verdict: NotObservable, Why: why, RequestIDs: idsOf(by)}
}

// unexpected returns the finding that the status of a does not decide a point.
func unexpected(a answer) Finding {
	return ambiguous(fmt.Sprintf("a request got the unexpected status %d", a.status), a)
}

func idsOf(answers []answer) []string {
	var ids []string
	for _, a := range answers {
		if a.requestID != "" {
			ids = append(ids, a.requestID)
		}
	}
	return ids
}

// decide returns the finding of a point with two variants: one accepts the request, the other
// rejects it.
func decide(a answer, accepted, refused string) Finding {
	switch {
	case a.ok():
		return seen(accepted, a)
	case a.refused():
		return seen(refused, a)
	}
	return unexpected(a)
}

// lacking returns id if the platform responded with one. Otherwise it returns the finding that
// a point lacks this record.
func lacking(a answer, id, why string) (string, *Finding) {
	if a.ok() && id != "" {
		return id, nil
	}
	f := ambiguous(why+": status "+strconv.Itoa(a.status), a)
	return "", &f
}

// statusOf returns the finding of a point with error statuses as variants.
func statusOf(a answer) Finding {
	switch {
	case a.status < 400, a.status >= 500, a.status == http.StatusUnauthorized, a.status == http.StatusTooManyRequests:
		return unexpected(a)
	}
	return seen(strconv.Itoa(a.status), a)
}

// point is an open point of the API.
type point struct {
	name     string
	variants []string // the first is the default of the fake platform
	observe  func(*session) Finding
}

// notObservable returns a point that no request can show.
func notObservable(name, why string, variants ...string) point {
	return point{name, variants, func(*session) Finding { return hidden(why) }}
}
