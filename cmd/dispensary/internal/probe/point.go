package probe

import (
	"fmt"
	"net/http"
	"strconv"
)

// seen is a variant that answers show.
func seen(variant string, by ...answer) Finding {
	return Finding{Verdict: Seen, Variant: variant, RequestIDs: idsOf(by)}
}

// ambiguous is a point that answers do not decide.
func ambiguous(why string, by ...answer) Finding {
	return Finding{Verdict: Ambiguous, Why: why, RequestIDs: idsOf(by)}
}

// hidden is a point that does not show, or not here.
func hidden(why string, by ...answer) Finding {
	return Finding{Verdict: NotObservable, Why: why, RequestIDs: idsOf(by)}
}

// unexpected is a point whose request met a status that says nothing about it.
func unexpected(a answer) Finding {
	return ambiguous(fmt.Sprintf("a request was answered with status %d", a.status), a)
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

// decide reads a point where one variant accepts a request and the other refuses it.
func decide(a answer, accepted, refused string) Finding {
	switch {
	case a.ok():
		return seen(accepted, a)
	case a.refused():
		return seen(refused, a)
	}
	return unexpected(a)
}

// lacking says why something is missing that a point needs, if it is.
func lacking(a answer, id, why string) (string, *Finding) {
	if a.ok() && id != "" {
		return id, nil
	}
	f := ambiguous(why+": status "+strconv.Itoa(a.status), a)
	return "", &f
}

// statusOf is a point whose variants are statuses of a refusal.
func statusOf(a answer) Finding {
	switch {
	case a.status < 400, a.status >= 500, a.status == http.StatusUnauthorized, a.status == http.StatusTooManyRequests:
		return unexpected(a)
	}
	return seen(strconv.Itoa(a.status), a)
}

// point is one that the API leaves open.
type point struct {
	name     string
	variants []string // the first is what the fake platform does unless told otherwise
	observe  func(*session) Finding
}

// notObservable are points that no request shows.
func notObservable(name, why string, variants ...string) point {
	return point{name, variants, func(*session) Finding { return hidden(why) }}
}
