package control

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

// inGoAs is how the lines of Go in the route table write the things that have the
// methods of a test bench.
var inGoAs = map[string]reflect.Type{
	"fake":            reflect.TypeFor[*dispensarytest.Server](),
	"fake.Platform()": reflect.TypeFor[*dispensarytest.Platform](),
	"fake.Clock()":    reflect.TypeFor[*dispensarytest.Clock](),
	"fake.Journal()":  reflect.TypeFor[*dispensarytest.Journal](),
	"fault":           reflect.TypeFor[*dispensarytest.FaultHandle](),
	"simulator":       reflect.TypeFor[*dispensarytest.Simulator](),
	"snapshot":        reflect.TypeFor[*dispensarytest.Snapshot](),
	"browser":         reflect.TypeFor[*dispensarytest.Browser](),
}

// elsewhere is what has no operation that names it, and why.
var elsewhere = map[string]string{
	"fake.AuthURL":                "a setting, see settings.get",
	"fake.BaseURL":                "a setting, see settings.get",
	"fake.ClinicKey":              "a setting, see settings.get",
	"fake.Region":                 "what the platform was started as does not change",
	"fake.Site":                   "a setting, in the types of the Go client",
	"fake.Close":                  "who started the platform ends it; of forks see forks.close",
	"fake.Changes":                "a program waits for what it is after, see events.wait_delivered",
	"fake.Platform().Overview":    "see the lists, order_by=DESC",
	"fake.Client":                 "a client in Go",
	"fake.TokenSource":            "a token for a client in Go, see tokens.issue",
	"fake.HTTPClient":             "an HTTP client in Go",
	"fake.Handler":                "a handler in Go",
	"fake.Host":                   "a handler in Go, on a network without sockets",
	"fake.RegisterWebhookHandler": "a handler in Go, see webhook.register",
	"fake.Browser":                "a browser in Go; in another language, that one's HTTP client opens the pages",
	"fake.Approve":                "opens the authorization page, which is there for every HTTP client; see tokens.issue for doing without",
	"fake.Decline":                "opens the authorization page, which is there for every HTTP client",
	"browser.Authorize":           "see fake.Browser",
	"browser.Cancel":              "see fake.Browser",
	"fake.Journal().Len":          "the seq of the latest request, see journal.list",
	"fake.Journal().Last":         "see journal.list, order_by=DESC",
	"fake.Journal().Of":           "see journal.list, operation=",
	"fault.ID":                    "a field of the answer, see faults.list",
	"fault.Fault":                 "a field of the answer, see faults.list",
	"fault.Fired":                 "a field of the answer, see faults.list",
	"fault.Active":                "a field of the answer, see faults.list",
	"fault.String":                "for people, of what faults.list says",
	"fake.Clock().Next":           "a field of the answer, see clock.get",
	"snapshot.Same":               "finds out whether a file is up to date, as the command does with -state",
}

// Whatever a test in Go can do with the platform can be done here, or is left out for
// a reason.
func TestEveryMethodHasAnOperation(t *testing.T) {
	t.Parallel()
	lines := "\n"
	for _, op := range Operations() {
		lines += strings.NewReplacer(", ", "\n", ":= ", "\n", "= ", "\n").Replace(op.Go) + "\n"
	}
	known := map[string]bool{}
	for expression, kind := range inGoAs {
		for i := range kind.NumMethod() {
			name := expression + "." + kind.Method(i).Name
			known[name] = true
			inTable, reason := strings.Contains(lines, "\n"+name+"("), elsewhere[name]
			switch {
			case !inTable && reason == "":
				t.Errorf("no operation does what %s does, and nothing says why", name)
			case inTable && reason != "":
				t.Errorf("%s is an operation, and yet it is said that %s", name, reason)
			}
		}
	}
	for name := range elsewhere {
		assert.True(t, known[name], "there is no %s", name)
	}
}
