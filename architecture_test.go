package dispensary_test

import (
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testkit/layers"
)

const module = "github.com/dispensary-go/dispensary"

// arrows contains the allowed imports of each package of the root module, without the standard
// library: packages of this repository by folder, others by path. Add a new arrow in a
// separate commit with its reason.
var arrows = map[string][]string{
	".":                        {"api", "api/observe", "catalog", "clinic", "events", "internal/environ", "internal/transport", "treatmentplans"},
	"api":                      {"internal/apikit/hidden", "internal/siteurl"},
	"oauth/accounts":           {".", "oauth", "oauth/connect", "oauth/tokens", "oauth/tokenstore", "internal/defaults", "internal/transport", "api"},
	"api/observe":              {"api"},
	"catalog":                  {"api", "internal/apikit/hidden", "internal/operation", "internal/transport"},
	"catalogsync":              {"api", "catalog", "events", "internal/fold", "internal/apikit"},
	"clinic":                   {"api", "catalog", "internal/fold", "internal/jsondecode", "internal/operation", "internal/resource", "internal/redact", "internal/transport"},
	"events":                   {"api", "catalog", "clinic", "internal/jsondecode", "internal/operation", "internal/resource", "internal/redact", "internal/transport", "treatmentplans"},
	"fhir":                     {"api", "catalog", "clinic", "internal/redact", "treatmentplans"},
	"health":                   {"api", "oauth/tokens", "oauth/tokenstore", "webhook", "webhook/engine", "webhook/reconcile"},
	"integration":              {".", "api", "api/observe", "events", "health", "internal/closestmatch", "internal/defaults", "internal/environ", "internal/apikit", "oauth", "oauth/accounts", "oauth/connect", "oauth/tokens", "oauth/tokenstore", "ratelimit", "seal", "webhook", "webhook/admin", "webhook/engine", "webhook/memoryinbox", "webhook/reconcile"},
	"integration/doctor":       {".", "api", "events", "internal/defaults", "internal/operation", "internal/transport", "oauth", "oauth/tokens", "oauth/tokenstore", "seal", "webhook", "webhook/engine", "webhook/reconcile"},
	"internal/apikit":          {"api", "internal/apikit/hidden"},
	"internal/apikit/hidden":   {},
	"internal/closestmatch":    {},
	"internal/defaults":        {},
	"internal/environ":         {"api"},
	"internal/filelock":        {},
	"internal/fold":            {},
	"internal/httplimit":       {},
	"internal/jitter":          {},
	"internal/jsondecode":      {},
	"internal/resource":        {"api", "internal/apikit", "internal/jsondecode", "internal/operation", "internal/transport"},
	"internal/operation":       {"api"},
	"internal/redact":          {},
	"internal/siteurl":         {},
	"internal/sqldb":           {"api", "internal/jitter"},
	"internal/sqlitefile":      {"api", "internal/sqldb", "internal/filelock"},
	"internal/webpage":         {},
	"internal/transport":       {"api", "api/observe", "internal/apikit", "internal/apikit/hidden", "internal/jitter", "internal/jsondecode", "internal/operation", "github.com/google/go-querystring/query", "github.com/hashicorp/go-retryablehttp"},
	"oauth/storetest":          {"api", "oauth", "oauth/internal/oauthtest", "oauth/tokens", "oauth/tokenstore", "internal/defaults", "github.com/stretchr/testify/assert", "github.com/stretchr/testify/require"},
	"ratelimit":                {"api", "internal/jitter", "internal/defaults", "internal/apikit"},
	"seal":                     {"api"},
	"openapi":                  {},
	"oauth":                    {"api", "api/observe", "internal/defaults", "internal/jsondecode", "internal/operation", "internal/apikit", "internal/siteurl", "internal/transport", "golang.org/x/oauth2"},
	"oauth/connect":            {"api", "internal/defaults", "internal/webpage", "oauth", "oauth/tokens", "oauth/tokenstore"},
	"oauth/internal/ids":       {"api", "oauth"},
	"oauth/internal/oauthtest": {"api", "internal/defaults", "oauth", "oauth/tokenstore", "github.com/stretchr/testify/require"},
	"oauth/internal/tokenjson": {"api", "oauth"},
	"oauth/tokens":             {"api", "internal/defaults", "internal/jitter", "internal/apikit", "oauth", "oauth/internal/ids", "oauth/tokenstore"},
	"oauth/tokenstore":         {"api", "internal/defaults", "oauth", "oauth/internal/ids", "oauth/internal/tokenjson", "seal"},
	"treatmentplans":           {"api", "catalog", "clinic", "internal/apikit/hidden", "internal/resource", "internal/operation", "internal/redact", "internal/transport"},

	// The fake platform. The public package is above httpapi, pages, webhooks, the store and
	// model, in this order. Packages without names of the domain are below all of them.
	"dispensarytest":                     {".", "dispensarytest/internal/clock", "internal/closestmatch", "internal/environ", "internal/httplimit", "dispensarytest/internal/faults", "dispensarytest/internal/httpapi", "dispensarytest/internal/ids", "dispensarytest/internal/leak", "dispensarytest/internal/memhttp", "dispensarytest/internal/operations", "dispensarytest/internal/pages", "dispensarytest/internal/actions", "dispensarytest/internal/store", "dispensarytest/internal/table", "dispensarytest/internal/tokens", "dispensarytest/internal/webhooks", "dispensarytest/internal/worldfile", "dispensarytest/model", "openapi", "api", "dispensarytest/behavior", "dispensarytest/internal/rules"},
	"dispensarytest/behavior":            {"dispensarytest/internal/operations"},
	"dispensarytest/internal/rules":      {"dispensarytest/behavior", "internal/closestmatch", "dispensarytest/model"},
	"dispensarytest/internal/clock":      {},
	"dispensarytest/internal/faults":     {"dispensarytest/internal/clock", "dispensarytest/internal/ids", "dispensarytest/model"},
	"dispensarytest/internal/form":       {"dispensarytest/internal/store", "dispensarytest/model", "internal/closestmatch"},
	"dispensarytest/internal/httpapi":    {"dispensarytest/internal/form", "dispensarytest/behavior", "dispensarytest/internal/rules", "dispensarytest/internal/clock", "internal/closestmatch", "dispensarytest/internal/faults", "dispensarytest/internal/ids", "dispensarytest/internal/operations", "dispensarytest/internal/pages", "dispensarytest/internal/actions", "dispensarytest/internal/store", "dispensarytest/internal/table", "dispensarytest/internal/tokens", "dispensarytest/internal/view", "dispensarytest/internal/webhooks", "dispensarytest/model"},
	"dispensarytest/internal/ids":        {},
	"dispensarytest/internal/leak":       {"dispensarytest/internal/form", "dispensarytest/model"},
	"dispensarytest/internal/memhttp":    {},
	"dispensarytest/internal/operations": {"internal/closestmatch"},
	"dispensarytest/internal/pages":      {"dispensarytest/behavior", "api", "internal/webpage", "dispensarytest/internal/rules", "dispensarytest/internal/ids", "dispensarytest/internal/actions", "dispensarytest/internal/store", "dispensarytest/internal/table", "dispensarytest/model"},
	"dispensarytest/internal/actions":    {"dispensarytest/internal/form", "dispensarytest/behavior", "dispensarytest/internal/rules", "dispensarytest/internal/clock", "dispensarytest/internal/store", "dispensarytest/internal/table", "dispensarytest/internal/tokens", "dispensarytest/internal/view", "dispensarytest/internal/webhooks", "dispensarytest/model"},
	"dispensarytest/internal/signature":  {},
	"dispensarytest/internal/store":      {"dispensarytest/behavior", "api", "dispensarytest/internal/rules", "dispensarytest/internal/ids", "dispensarytest/internal/table", "dispensarytest/model", "internal/fold"},
	"dispensarytest/internal/table":      {},
	"dispensarytest/internal/tokens":     {"dispensarytest/behavior", "dispensarytest/internal/rules", "dispensarytest/internal/clock", "dispensarytest/internal/operations", "dispensarytest/internal/store", "dispensarytest/model"},
	"dispensarytest/internal/worldfile":  {"dispensarytest/internal/form", "api", "dispensarytest/internal/store", "dispensarytest/internal/table", "dispensarytest/model", "internal/closestmatch"},
	"dispensarytest/internal/view":       {"dispensarytest/behavior", "dispensarytest/internal/rules", "dispensarytest/internal/operations", "dispensarytest/internal/store", "dispensarytest/internal/table", "dispensarytest/model"},
	"dispensarytest/internal/webhooks":   {"dispensarytest/behavior", "dispensarytest/internal/rules", "dispensarytest/internal/clock", "internal/closestmatch", "dispensarytest/internal/faults", "dispensarytest/internal/memhttp", "dispensarytest/internal/signature", "dispensarytest/internal/store", "dispensarytest/internal/table", "dispensarytest/internal/view", "dispensarytest/model"},
	"dispensarytest/model":               {"internal/closestmatch", "dispensarytest/internal/operations"},
	"dispensarytest/receivercheck":       {"api", "dispensarytest", "dispensarytest/internal/ids", "dispensarytest/internal/leak", "dispensarytest/internal/signature", "dispensarytest/internal/view", "dispensarytest/model"},

	// Webhooks.
	"webhook":                   {"api", "events", "internal/apikit", "internal/defaults", "internal/jitter", "webhook/internal/safecall", "seal"},
	"webhook/admin":             {"api", "events", "internal/webpage", "oauth/accounts", "webhook", "webhook/engine", "webhook/reconcile"},
	"webhook/engine":            {"events", "webhook"},
	"webhook/internal/inboxkit": {"api", "events", "internal/apikit", "webhook/internal/safecall", "seal", "webhook", "webhook/engine", "webhook/reconcile"},
	"webhook/internal/safecall": {},
	"webhook/memoryinbox":       {"api", "webhook/internal/inboxkit", "webhook", "webhook/engine", "webhook/reconcile"},
	"webhook/reconcile":         {"api", "events", "internal/apikit", "webhook/internal/safecall", "internal/transport", "webhook", "webhook/engine"},

	// Test kits. Only tests and other test kits import them.
	"internal/testkit/calltest":      {".", "api", "catalog", "clinic", "dispensarytest", "dispensarytest/model", "events", "oauth", "treatmentplans"},
	"internal/testkit/catalogtest":   {"catalog", "catalogsync"},
	"internal/testkit/docgen":        {},
	"internal/testkit/layers":        {},
	"internal/testkit/logtest":       {},
	"internal/testkit/mistakes":      {"api", "dispensarytest/receivercheck", "events", "webhook", "webhook/memoryinbox", "github.com/stretchr/testify/require"},
	"internal/testkit/postgrestest":  {"github.com/stretchr/testify/assert", "github.com/stretchr/testify/require"},
	"internal/testkit/ratelimittest": {"api", "ratelimit", "github.com/stretchr/testify/assert", "github.com/stretchr/testify/require"},
	"internal/testkit/receivertest":  {"api", "events", "seal", "webhook", "github.com/stretchr/testify/require"},
	"internal/testkit/resourcetest":  {"api", "dispensarytest", "github.com/stretchr/testify/assert", "github.com/stretchr/testify/require"},
	"internal/testkit/sqltest":       {"api", "internal/sqldb", "internal/testkit/postgrestest", "github.com/stretchr/testify/assert", "github.com/stretchr/testify/require"},
	"internal/testkit/testsize":      {},
	"webhook/internal/enginetest":    {"api", "events", "webhook/internal/inboxkit", "internal/testkit/logtest", "seal", "webhook", "webhook/engine", "webhook/reconcile", "github.com/stretchr/testify/assert", "github.com/stretchr/testify/require"},
}

func TestImportArrows(t *testing.T) {
	t.Parallel()
	folders := packages(t, false)
	assert.ElementsMatch(t, slices.Collect(maps.Keys(arrows)), folders, "packages")
	for _, folder := range folders {
		for imported := range importsOf(t, folder) {
			assert.Contains(t, arrows[folder], imported, "%s must not import %s", folder, imported)
			if isTestKit(imported) {
				assert.True(t, isTestKit(folder), "%s imports %s, which is for tests", folder, imported)
			}
		}
	}
}

// isTestKit reports whether only tests and other test kits may import a package.
func isTestKit(folder string) bool {
	return strings.HasPrefix(folder, "internal/testkit/") || folder == "webhook/internal/enginetest"
}

// house lists the folders of the repository from the top down. Imports point down the list.
var house = strings.Fields(`
	examples internal/lab internal/tools cmd
	integration/doctor
	integration dispensaryotel health
	webhook/internal/enginetest internal/testkit
	webhook/memoryinbox webhook/publish webhook/riverinbox webhook/sqlinbox
	webhook/internal/inboxkit
	webhook oauth dispensarytest catalogsync fhir
	.
	events treatmentplans clinic catalog
	ratelimit seal openapi
	internal api`)

// The limits apply to the whole repository, including nested modules. Run the test with -v for
// the figures.
func TestArrowsPointDown(t *testing.T) {
	t.Parallel()
	const most, mostInPackage, mostMethods = 3, 5, 30
	drawn := map[layers.Arrow]bool{}
	for _, folder := range packages(t, true) {
		for imported := range importsOf(t, folder) {
			from, to := room(t, folder), room(t, imported)
			if from != to && to != "" {
				drawn[layers.Arrow{From: from, To: to}] = true
			}
		}
		files := token.NewFileSet()
		tree := parsed(t, files, folder, parser.SkipObjectResolution)
		for name, methods := range layers.Methods(tree) {
			if methods > mostMethods-5 {
				t.Logf("%s: %s has %d methods", folder, name, methods)
			}
			assert.LessOrEqual(t, methods, mostMethods, "%s: methods of %s", folder, name)
		}
		order := layers.Of(files, tree)
		if len(order.Back) > 0 {
			t.Logf("%s: %d of %d arrows between its files point up: %v", folder, len(order.Back), order.Arrows, order.Back)
		}
		assert.LessOrEqual(t, len(order.Back), mostInPackage, "%s: arrows that point up in the order %v", folder, order.Files)
	}
	var back []layers.Arrow
	for arrow := range drawn {
		if slices.Index(house, arrow.From) > slices.Index(house, arrow.To) {
			back = append(back, arrow)
		}
	}
	t.Logf("the repository: %d folders, %d arrows, %d point up: %v", len(house), len(drawn), len(back), back)
	assert.LessOrEqual(t, len(back), most, "arrows that point up")
}

// room returns the folder in house of a package, or "" for a package outside the repository.
func room(t *testing.T, folder string) string {
	t.Helper()
	if first, _, _ := strings.Cut(folder, "/"); strings.Contains(first, ".") && folder != "." {
		return ""
	}
	for name := folder; ; name = filepath.ToSlash(filepath.Dir(name)) {
		switch {
		case slices.Contains(house, name) && (name != "." || folder == "."):
			return name
		case name == ".":
			t.Fatalf("house does not list the folder of %s", folder)
		}
	}
}

// importsOf returns the imports of a package, without its tests and the standard library.
func importsOf(t *testing.T, folder string) map[string]bool {
	t.Helper()
	imports := map[string]bool{}
	for _, file := range parsed(t, token.NewFileSet(), folder, parser.ImportsOnly) {
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") { // not the standard library
				imports[withinHouse(imported)] = true
			}
		}
	}
	return imports
}

// withinHouse converts an import of this repository to its folder.
func withinHouse(imported string) string {
	if imported == module {
		return "."
	}
	return strings.TrimPrefix(imported, module+"/")
}
