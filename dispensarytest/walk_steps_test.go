package dispensarytest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// step is one thing that happens: a kind of move and numbers that say which
// objects it is about. Numbers are taken modulo what there is, so that a step
// means something in every sequence, and a sequence can lose any of its steps.
type step struct {
	move       string
	a, b, c, d int
}

// prediction is what a step is in this state, and what the model says comes of
// it.
type prediction struct {
	request request
	status  int            // 200 and up for calls; platform actions: 200, 404 or 422
	fields  map[string]any // path in the answer to its value; refs stand for ids
	binds   map[string]ref // path in the answer to the object it names
}

// request is a call, or what else is done to the platform.
type request struct {
	method string
	path   []any // strings and refs
	query  string
	body   map[string]any // refs stand for ids
	token  int
	key    keyChoice
	open   bool // needs no token

	act  func(d *driver) (any, error) // in place of a call
	text string                       // of the act
}

// move is a kind of step.
type move struct {
	name    string
	weight  int
	predict func(m *walkModel, s step) prediction
}

// moves are all kinds of steps.
func moves() []move {
	return slices.Concat(readMoves(), writeMoves(), planMoves(), oauthMoves(), platformMoves())
}

var moveTable = func() map[string]move {
	table := make(map[string]move)
	for _, mv := range moves() {
		table[mv.name] = mv
	}
	return table
}()

// randomSteps makes a sequence; the same source makes the same one.
func randomSteps(source *rand.Rand, n int) []step {
	all, total := moves(), 0
	for _, mv := range all {
		total += mv.weight
	}
	steps := make([]step, 0, n)
	for range n {
		at := source.IntN(total)
		for _, mv := range all {
			if at -= mv.weight; at < 0 {
				number := func() int { return source.IntN(1 << 16) }
				steps = append(steps, step{mv.name, number(), number(), number(), number()})
				break
			}
		}
	}
	return steps
}

// choose picks one of n, lately made ones rather than others; -1 is an unknown one.
func choose(n, number int) int {
	if n == 0 || number%20 == 0 {
		return -1
	}
	number /= 20
	if number%4 == 0 {
		return number / 4 % n
	}
	return n - 1 - number/4%min(n, 5)
}

// caller picks the token of a call: mostly the newest one that there is.
func (m *walkModel) caller(s step) int {
	if s.d%16 == 0 {
		return choose(len(m.tokens), s.d/16)
	}
	return len(m.tokens) - 1
}

func (s step) key() keyChoice {
	switch s.d / 16 % 24 {
	case 1:
		return rightKey
	case 2:
		return wrongKey
	}
	return noKey
}

// call starts the prediction of an API call. It is final when refused is true.
func (m *walkModel) call(s step, method, scope string, path ...any) (p prediction, refused bool) {
	p.request = request{method: method, path: path, token: m.caller(s), key: s.key()}
	p.status = m.enter(p.request.token, p.request.key, scope)
	return p, p.status != 0
}

// callAbout is call for one object, which is not known where its number is negative.
func (m *walkModel) callAbout(s step, at int, method, scope string, path ...any) (p prediction, done bool) {
	p, done = m.call(s, method, scope, path...)
	if !done && at < 0 {
		p.status, done = http.StatusNotFound, true
	}
	return p, done
}

// also asks for another scope.
func (m *walkModel) also(p *prediction, scope string) bool {
	if !m.tokens[p.request.token].grant.has(scope) {
		p.status = http.StatusForbidden
		return false
	}
	return true
}

// answer completes a prediction, unless the call is refused before.
func (p prediction) answer(status int, fields map[string]any) prediction {
	if p.status == 0 {
		p.status, p.fields = status, fields
	}
	return p
}

func (p prediction) bind(path string, to ref) prediction {
	p.binds = map[string]ref{path: to}
	return p
}

// act is the prediction of something that is not a call.
func act(text string, status int, fields map[string]any, run func(d *driver) (any, error)) prediction {
	return prediction{request: request{act: run, text: text}, status: status, fields: fields}
}

// address is one of a few addresses, so that they collide; some are written in
// capital letters.
func address(prefix string, number int) string {
	email := fmt.Sprintf("%s%d@example.org", prefix, number/5%40)
	if number%5 == 0 {
		return strings.ToUpper(email)
	}
	return email
}

func metadataID(number int) string { return fmt.Sprintf("ehr-%d", number%6) }

// String tells a request in the model's words.
func (r request) String() string {
	if r.act != nil {
		return r.text
	}
	var text strings.Builder
	text.WriteString(r.method + " ")
	for _, part := range r.path {
		fmt.Fprint(&text, part)
	}
	text.WriteString(r.query)
	if r.body != nil {
		text.WriteString(" " + written(r.body))
	}
	if !r.open {
		fmt.Fprintf(&text, " with %v", ref{"token", r.token})
	}
	return text.String() + [...]string{"", " and the clinic key", " and a wrong clinic key"}[r.key]
}

// written is a body as a person reads it; an application's credentials are in
// every token request and say nothing.
func written(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var fields []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !slices.Contains(credentials, name) {
				fields = append(fields, name+": "+written(v[name]))
			}
		}
		return "{" + strings.Join(fields, ", ") + "}"
	case []any:
		var items []string
		for _, item := range v {
			items = append(items, written(item))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case string:
		return strconv.Quote(v)
	}
	return fmt.Sprint(v)
}

// disagreement is a sequence after whose last step platform and model say
// different things.
type disagreement struct {
	steps  []step
	did    []deed
	differ string
	met    map[string]int // moves and their answers, for the statistics
}

// replay walks a sequence on a fresh platform; nil when the two agree to the end.
func replay(l laws, steps []step) (*disagreement, map[string]int) {
	d := newDriver(l)
	defer d.fake.Close()
	for i, s := range steps {
		if differ := d.take(s); differ != "" {
			return &disagreement{steps: steps[:i+1], did: d.did, differ: differ, met: d.met}, d.met
		}
	}
	return nil, d.met
}

// shrink looks for a short sequence that ends in a disagreement: it leaves out
// ever smaller parts (delta debugging), then makes the numbers of what is left as
// small as they can be. It returns the result and how many replays it took.
func shrink(l laws, found *disagreement) (*disagreement, int) {
	replays := 0
	try := func(steps []step) bool {
		replays++
		smaller, _ := replay(l, steps)
		if smaller == nil {
			return false
		}
		found = smaller
		return true
	}
	for size := len(found.steps) / 2; size > 0; {
		shrunk := false
		for from := 0; from+size < len(found.steps); {
			without := append(append([]step(nil), found.steps[:from]...), found.steps[from+size:]...)
			if try(without) {
				shrunk = true
				continue // the next part now stands here
			}
			from += size
		}
		if !shrunk || size > 1 {
			size /= 2
		}
	}
	for i := 0; i < len(found.steps); i++ {
		for _, number := range []func(*step) *int{
			func(s *step) *int { return &s.a }, func(s *step) *int { return &s.b }, func(s *step) *int { return &s.c }, func(s *step) *int { return &s.d },
		} {
			for _, simple := range []int{1, 20} { // the first of a kind, or the latest; 0 stands for an unknown one
				simpler := append([]step(nil), found.steps...)
				if i >= len(simpler) || *number(&simpler[i]) == 1 {
					break
				}
				if *number(&simpler[i]) = simple; try(simpler) {
					break
				}
			}
		}
	}
	return found, replays
}

// String lists the steps as a person reads them.
func (f *disagreement) String() string {
	var text strings.Builder
	for i, line := range f.did {
		fmt.Fprintf(&text, "\n  %2d. %s", i+1, line)
	}
	fmt.Fprintf(&text, "\n      %s", f.differ)
	return text.String()
}
