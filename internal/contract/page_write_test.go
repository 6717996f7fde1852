package contract_test

import (
	"fmt"
	"go/doc"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/operation"
)

const pageHead = `# The test platform, point by point

Everything that package [dispensarytest](../dispensarytest) serves, assumes, can be
switched to, can be made to do wrong, and does differently. Written by the tests of
internal/contract from the tables, the contract and the comments in the code; after a
change of one of those:

    go test ./internal/contract -run TestPlatformPage -update

- [Endpoints](#endpoints)
- [What the API leaves open](#what-the-api-leaves-open)
- [Assumptions](#assumptions)
- [Assumptions of the contract](#assumptions-of-the-contract)
- [Deviations](#deviations)
- [Faults](#faults)
- [Compatible changes](#compatible-changes)
- [Options](#options)
`

// page writes the page of the platform.
type page struct {
	t   *testing.T
	out strings.Builder
	pkg *doc.Package
}

func writePage(t *testing.T) string {
	p := &page{t: t, pkg: documentation(t, fakeFolder, fakePath)}
	p.out.WriteString(pageHead)
	p.endpoints()
	p.behaviors()
	p.statements("Assumptions", "Where the API is silent the platform does what integrators of such services have met. What it can be switched away from is in the table above; these are the defaults.")
	p.contract()
	p.statements("Deviations", "Where the platform knowingly does something else than the API says, or leaves something out.")
	p.faults()
	p.compatible()
	p.options()
	return p.out.String()
}

func (p *page) line(format string, args ...any) { fmt.Fprintf(&p.out, format+"\n", args...) }

// row writes a row of a table; cells contain no bars and no line breaks.
func (p *page) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = strings.NewReplacer("|", `\|`, "\n", " ").Replace(cell)
	}
	p.line("| %s |", strings.Join(cells, " | "))
}

func (p *page) head(cells ...string) {
	p.line("")
	p.row(cells...)
	p.line("|%s", strings.Repeat("---|", len(cells)))
}

// sections are the sections of the API's documentation that are not called as the
// contract calls the group.
var sections = map[string]string{
	"Dynamic links": "Dynamic links (quick integration)", "Clinic": "Clinic, addresses, categories",
	"Protocols": "Protocols and templates", "Webhooks": "Webhook deliveries",
}

func (p *page) endpoints() {
	_, document := published(p.t)
	calls, described := clientCalls(p.t), map[string]*openapi3.Operation{}
	for _, item := range document.Paths.Map() {
		for _, op := range item.Operations() {
			described[op.OperationID] = op
		}
	}
	p.line("\n## Endpoints\n")
	p.line("Paths stand below the base address, and groups are the API's sections. *Assumed* scopes are not stated by the API: they follow from what the scopes grant.")
	p.line("The last column names the points the API leaves open that touch this endpoint and few others; see [below](#what-the-api-leaves-open) for those that touch many.")
	last := ""
	for _, op := range operation.All() {
		about := described[op.Name]
		require.NotNil(p.t, about, "%s is not in the contract", op.Name)
		require.NotEmpty(p.t, calls[op.Name], "%s has no call", op.Name)
		if tag := about.Tags[0]; tag != last {
			last = tag
			p.line("\n### %s", tag)
			if section := sections[tag]; section != "" {
				p.line("\nAPI section: %q.", section)
			}
			p.head("Operation", "Request", "Scope", "Call", "Errors", "Open points")
		}
		request := "`" + op.Method + " " + op.Route + "`"
		if op.Deprecated {
			request += " *deprecated*"
		}
		p.row("`"+op.Name+"`", request, scope(op), "`"+calls[op.Name]+"`", refusals(about), openPoints(op.Name))
	}
}

func scope(op *operation.Operation) string {
	switch {
	case !op.NeedsToken():
		return "no token"
	case op.ScopeVaries:
		return "that of what is asked for; *assumed*"
	case op.ScopeStated:
		return "`" + strings.ReplaceAll(op.Scope, " ", "` `") + "`"
	}
	return "`" + op.Scope + "` *assumed*"
}

// refusals are the statuses of an operation's errors.
func refusals(op *openapi3.Operation) string {
	var statuses []string
	for status := range op.Responses.Map() {
		if status >= "4" {
			statuses = append(statuses, status)
		}
	}
	slices.Sort(statuses)
	return strings.Join(statuses, " ")
}

// few is how many operations a choice touches at most to be named with each of them.
const few = 8

func openPoints(name string) string {
	var names []string
	for _, s := range dispensarytest.BehaviorChoices() {
		if len(s.Operations) <= few && slices.Contains(s.Operations, name) {
			names = append(names, "`"+s.Name+"`")
		}
	}
	return strings.Join(names, " ")
}

func (p *page) behaviors() {
	p.line("\n## What the API leaves open\n")
	p.line("Each point has a name and variants, of which the first is the default. `WithBehavior` and `Server.SetBehavior` choose one, `--behavior` of the command does, and a test in `EachBehavior` runs under all of them.")
	p.head("Point", "API section", "Why", "Variants", "Touches")
	for _, s := range dispensarytest.BehaviorChoices() {
		var variants []string
		for i, r := range s.Variants {
			text := "`" + r.Behavior.Variant() + "`: " + r.Meaning
			if i == 0 {
				text = "**`" + r.Behavior.Variant() + "`**: " + r.Meaning
			}
			variants = append(variants, text)
		}
		p.row("`"+s.Name+"`", s.Section, s.Why, strings.Join(variants, "<br>"), touches(s))
	}
}

// touches says in words which operations a choice touches.
func touches(s dispensarytest.BehaviorChoice) string {
	sets := []struct {
		words string
		holds func(op *operation.Operation) bool
	}{
		{"every endpoint", func(*operation.Operation) bool { return true }},
		{"every endpoint but the page", func(op *operation.Operation) bool { return op.Name != "oauth.authorize" }},
		{"every endpoint with a token", func(op *operation.Operation) bool { return op.NeedsToken() }},
		{"every list", func(op *operation.Operation) bool { return op.List }},
		{"every list but `products.similar`", func(op *operation.Operation) bool { return op.List && op.Name != "products.similar" }},
		{"whatever changes something", func(op *operation.Operation) bool { return op.NeedsToken() && !op.Read() }},
	}
	touched := slices.Sorted(slices.Values(s.Operations))
	for _, set := range sets {
		var names []string
		for _, op := range operation.All() {
			if set.holds(op) {
				names = append(names, op.Name)
			}
		}
		if slices.Sort(names); slices.Equal(names, touched) {
			return set.words
		}
	}
	if len(touched) == 0 {
		return "events and webhooks"
	}
	return "`" + strings.Join(touched, "` `") + "`"
}

func (p *page) statements(heading, intro string) {
	p.line("\n## %s\n\n%s", heading, intro)
	for _, topic := range section(p.t, p.pkg, heading) {
		p.line("\n**%s**\n", topic.name)
		for _, statement := range topic.statements {
			p.line("- %s", statement)
		}
	}
}

func (p *page) contract() {
	tree, _ := published(p.t)
	places, order := map[string][]string{}, []string{}
	for _, a := range assumptionsIn(tree, nil) {
		if places[a.text] == nil {
			order = append(order, a.text)
		}
		places[a.text] = append(places[a.text], a.where)
	}
	require.NotEmpty(p.t, order)
	p.line("\n## Assumptions of the contract\n")
	p.line("What [openapi/dispensary.yaml](../openapi/dispensary.yaml) says under `x-assumption`, and where.")
	p.head("Assumption", "Where")
	for _, text := range order {
		p.row(text, strings.Join(places[text], "<br>"))
	}
}

func (p *page) faults() {
	nouns := documentation(p.t, modelFolder, modelPath)
	effects := constants(nouns)
	p.line("\n## Faults\n")
	p.line("What `Server.Fault` can make go wrong, and `POST /faults` of the control API, for one operation or event type or for all, so many times or with a chance.")
	p.head("Effect", "Name in Go", "What it does")
	for _, effect := range model.Effects() {
		about, known := effects[string(effect)]
		require.True(p.t, known, "%s is no documented constant", effect)
		p.row("`"+string(effect)+"`", "`"+about.name+"`", said(nouns, about.name, about.text))
	}
}

func (p *page) compatible() {
	p.line("\n## Compatible changes\n")
	at := slices.IndexFunc(options(p.t, p.pkg), func(f *doc.Func) bool { return f.Name == "WithCompatibleChanges" })
	require.GreaterOrEqual(p.t, at, 0)
	p.line("`WithCompatibleChanges`: %s", said(p.pkg, "WithCompatibleChanges", options(p.t, p.pkg)[at].Doc))
}

func (p *page) options() {
	p.line("\n## Options\n")
	p.line("Of `New` and `Start`. The command has flags for most of them.")
	p.head("Option", "What it does")
	for _, option := range options(p.t, p.pkg) {
		p.row("`"+option.Name+"`", said(p.pkg, option.Name, option.Doc))
	}
}

// constant is the comment of a documented constant.
type constant struct{ name, text string }

// constants are the documented constants of a package, by their value.
func constants(pkg *doc.Package) map[string]constant {
	found := map[string]constant{}
	groups := slices.Clone(pkg.Consts)
	for _, kind := range pkg.Types {
		groups = append(groups, kind.Consts...)
	}
	for _, group := range groups {
		maps.Copy(found, constantsOf(group))
	}
	return found
}

// options are the functions that return an Option.
func options(t *testing.T, pkg *doc.Package) []*doc.Func {
	t.Helper()
	for _, kind := range pkg.Types {
		if kind.Name == "Option" {
			return kind.Funcs
		}
	}
	require.Fail(t, "there is no type Option")
	return nil
}
