package httpapi

import (
	"net/url"
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

// node is one step of the compiled table: a path segment.
type node struct {
	static map[string]*node
	param  *node
	ops    map[string]*endpoint // by method
}

// routes is the table as a tree. It is compiled once in a process; platforms
// share it, so that starting one registers nothing.
var routes = sync.OnceValue(compile)

func compile() *node {
	root := new(node)
	answered, pages := handlers(), authorizePages()
	for _, op := range operations.All() {
		found := &endpoint{Operation: op, handle: answered[op.ID]}
		if op.Page {
			found.page = pages[op.Method]
		}
		at := root
		for segment := range strings.SplitSeq(op.Route[1:], "/") {
			at = at.grow(segment)
		}
		if at.ops == nil {
			at.ops = make(map[string]*endpoint, 1)
		}
		at.ops[op.Method] = found
	}
	return root
}

func (n *node) grow(segment string) *node {
	if strings.HasPrefix(segment, "{") {
		if n.param == nil {
			n.param = new(node)
		}
		return n.param
	}
	if n.static == nil {
		n.static = make(map[string]*node)
	}
	next := n.static[segment]
	if next == nil {
		next = new(node)
		n.static[segment] = next
	}
	return next
}

// find walks an escaped path below the base address. A node without an
// operation for the method still comes back, so that the journal can say which
// methods there would have been.
func (n *node) find(path string, values *routeArgs) *node {
	filled := 0
	for path != "" {
		if path[0] != '/' {
			return nil
		}
		segment := path[1:]
		if slash := strings.IndexByte(segment, '/'); slash >= 0 {
			segment = segment[:slash]
		}
		path = path[1+len(segment):]
		if next := n.static[segment]; next != nil {
			n = next
			continue
		}
		value, ok := unescape(segment)
		if n.param == nil || !ok || value == "" {
			return nil
		}
		values[filled] = value
		filled++
		n = n.param
	}
	return n
}

func unescape(segment string) (string, bool) {
	if strings.IndexByte(segment, '%') < 0 {
		return segment, true
	}
	value, err := url.PathUnescape(segment)
	return value, err == nil
}
