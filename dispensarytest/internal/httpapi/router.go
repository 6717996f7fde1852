package httpapi

import (
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
)

// endpoint is an operation with what answers it: a handler or a page.
type endpoint struct {
	operations.Operation
	handle handler
	page   pageHandler
}

// route is a path of the API with its operations, by method. It has one parameter at most.
type route struct {
	segments []string // a parameter in braces
	params   int
	ops      map[string]*endpoint
}

// routes returns the table by route, with routes without parameters first. It is made once
// in a process.
var routes = sync.OnceValue(func() (all []*route) {
	answered, pages, known := handlers(), authorizePages(), make(map[string]*route)
	for _, op := range operations.All() {
		found := &endpoint{Operation: op, handle: answered[op.ID]}
		if op.Page {
			found.page = pages[op.Method]
		}
		if known[op.Route] == nil {
			known[op.Route] = &route{segments: strings.Split(op.Route, "/"), params: strings.Count(op.Route, "{"), ops: make(map[string]*endpoint, 1)}
			all = append(all, known[op.Route])
		}
		known[op.Route].ops[op.Method] = found
	}
	slices.SortStableFunc(all, func(a, b *route) int { return a.params - b.params })
	return all
})

// findRoute returns the route of an escaped path below the base address, or nil, and
// stores the value of its parameter.
func findRoute(path string, arg *string) *route {
	segments := strings.Split(path, "/")
	for _, r := range routes() {
		if r.matches(segments, arg) {
			return r
		}
	}
	return nil
}

func (r *route) matches(path []string, arg *string) bool {
	if len(path) != len(r.segments) {
		return false
	}
	for i, segment := range r.segments {
		if !strings.HasPrefix(segment, "{") {
			if segment != path[i] {
				return false
			}
			continue
		}
		value, err := url.PathUnescape(path[i])
		if err != nil || value == "" {
			return false
		}
		*arg = value
	}
	return true
}
