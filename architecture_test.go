package dispensary_test

import (
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/dispensary-go/dispensary"

// arrows says what each package of the root module may import, beside the
// standard library: packages of the module by their folder, others by their path.
// An arrow that is not drawn here is a decision, not an accident: draw it in a
// separate commit that says why.
var arrows = map[string][]string{
	".":                        {"api", "api/observe", "catalog", "clinic", "events", "internal/transport", "ratelimit", "treatmentplans"},
	"oauth/accounts":           {".", "oauth", "oauth/connect", "oauth/tokens", "oauth/tokenstore"},
	"api":                      {},
	"api/observe":              {"api"},
	"catalog":                  {"api", "internal/operation", "internal/transport"},
	"catalogsync":              {"api", "catalog", "events", "internal/fold"},
	"clinic":                   {"api", "catalog", "internal/fold", "internal/jsondecode", "internal/metadata", "internal/operation", "internal/redact", "internal/transport"},
	"events":                   {"api", "catalog", "clinic", "internal/jsondecode", "internal/jsonscan", "internal/operation", "internal/redact", "internal/transport", "treatmentplans"},
	"health":                   {"api", "oauth/tokens", "oauth/tokenstore", "webhook", "webhook/engine", "webhook/reconcile"},
	"internal/closestmatch":    {},
	"internal/contention":      {},
	"internal/failover":        {},
	"internal/fileid":          {},
	"internal/filelock":        {"internal/fileid"},
	"internal/fold":            {},
	"internal/httplimit":       {},
	"internal/joined":          {},
	"internal/jitter":          {},
	"internal/jsondecode":      {"internal/jsonscan"},
	"internal/jsonscan":        {},
	"internal/metadata":        {"api", "internal/jsondecode", "internal/operation", "internal/transport"},
	"internal/operation":       {"api"},
	"internal/redact":          {},
	"internal/sqlschema":       {"internal/contention"},
	"internal/sqlitefile":      {"api", "internal/failover", "internal/fileid", "internal/filelock"},
	"internal/textfile":        {},
	"internal/webpage":         {},
	"internal/transport":       {"api", "api/observe", "internal/jitter", "internal/jsondecode", "internal/jsonscan", "internal/operation", "github.com/google/go-querystring/query", "github.com/hashicorp/go-retryablehttp"},
	"oauth/storetest":          {"api", "oauth", "oauth/internal/oauthtest", "oauth/tokens", "oauth/tokenstore", "github.com/stretchr/testify/assert", "github.com/stretchr/testify/require"},
	"ratelimit":                {"api", "internal/jitter"},
	"seal":                     {"api"},
	"openapi":                  {},
	"oauth":                    {"api", "api/observe", "internal/jsondecode", "internal/operation", "internal/transport", "golang.org/x/oauth2"},
	"oauth/connect":            {"api", "oauth", "oauth/tokens", "oauth/tokenstore"},
	"oauth/internal/oauthtest": {"api", "oauth", "oauth/tokenstore", "github.com/stretchr/testify/require"},
	"oauth/internal/tokenjson": {"api", "oauth"},
	"oauth/tokens":             {"api", "internal/jitter", "oauth", "oauth/tokenstore"},
	"oauth/tokenstore":         {"api", "oauth", "oauth/internal/tokenjson", "seal"},
	"treatmentplans":           {"api", "catalog", "clinic", "internal/metadata", "internal/operation", "internal/redact", "internal/transport"},

	// The fake platform: the package over httpapi and pages over webhooks over
	// the store over model. What names nothing of the domain is below all of them.
	"dispensarytest":                     {".", "dispensarytest/internal/behavior", "dispensarytest/internal/clock", "internal/closestmatch", "internal/httplimit", "dispensarytest/internal/faults", "dispensarytest/internal/httpapi", "dispensarytest/internal/ids", "dispensarytest/internal/leak", "dispensarytest/internal/memhttp", "dispensarytest/internal/operations", "dispensarytest/internal/pages", "dispensarytest/internal/people", "dispensarytest/internal/store", "dispensarytest/internal/table", "dispensarytest/internal/tokens", "dispensarytest/internal/webhooks", "dispensarytest/model", "internal/textfile", "openapi"},
	"dispensarytest/internal/behavior":   {"internal/closestmatch", "dispensarytest/internal/operations", "dispensarytest/model"},
	"dispensarytest/internal/clock":      {},
	"dispensarytest/internal/faults":     {"dispensarytest/internal/clock", "dispensarytest/internal/ids", "dispensarytest/model"},
	"dispensarytest/internal/httpapi":    {"dispensarytest/internal/behavior", "dispensarytest/internal/clock", "internal/closestmatch", "dispensarytest/internal/faults", "dispensarytest/internal/ids", "dispensarytest/internal/operations", "dispensarytest/internal/pages", "dispensarytest/internal/people", "dispensarytest/internal/store", "dispensarytest/internal/table", "dispensarytest/internal/tokens", "dispensarytest/internal/view", "dispensarytest/internal/webhooks", "dispensarytest/model"},
	"dispensarytest/internal/ids":        {},
	"dispensarytest/internal/leak":       {},
	"dispensarytest/internal/memhttp":    {},
	"dispensarytest/internal/operations": {"internal/closestmatch"},
	"dispensarytest/internal/pages":      {"dispensarytest/internal/behavior", "dispensarytest/internal/ids", "dispensarytest/internal/people", "dispensarytest/internal/store", "dispensarytest/internal/table", "dispensarytest/model"},
	"dispensarytest/internal/people":     {"dispensarytest/internal/behavior", "dispensarytest/internal/clock", "dispensarytest/internal/store", "dispensarytest/internal/table", "dispensarytest/internal/tokens", "dispensarytest/internal/view", "dispensarytest/internal/webhooks", "dispensarytest/model"},
	"dispensarytest/internal/signature":  {},
	"dispensarytest/internal/store":      {"dispensarytest/internal/behavior", "dispensarytest/internal/ids", "dispensarytest/internal/table", "dispensarytest/model", "internal/fold"},
	"dispensarytest/internal/table":      {},
	"dispensarytest/internal/tokens":     {"dispensarytest/internal/behavior", "dispensarytest/internal/clock", "dispensarytest/internal/operations", "dispensarytest/internal/store", "dispensarytest/model"},
	"dispensarytest/internal/view":       {"dispensarytest/internal/behavior", "dispensarytest/internal/operations", "dispensarytest/internal/store", "dispensarytest/model"},
	"dispensarytest/internal/webhooks":   {"dispensarytest/internal/behavior", "dispensarytest/internal/clock", "internal/closestmatch", "dispensarytest/internal/faults", "dispensarytest/internal/memhttp", "dispensarytest/internal/signature", "dispensarytest/internal/store", "dispensarytest/internal/table", "dispensarytest/internal/view", "dispensarytest/model"},
	"dispensarytest/model":               {"internal/closestmatch", "dispensarytest/internal/operations"},
	"dispensarytest/receivercheck":       {"api", "dispensarytest", "dispensarytest/internal/leak", "dispensarytest/internal/signature", "dispensarytest/model"},

	// Webhooks.
	"webhook":                   {"api", "events", "internal/jitter", "seal", "webhook/internal/safecall"},
	"webhook/admin":             {"api", "events", "internal/webpage", "oauth/accounts", "webhook", "webhook/engine", "webhook/reconcile"},
	"webhook/engine":            {"api", "events", "seal", "webhook", "webhook/internal/safecall"},
	"webhook/internal/safecall": {},
	"webhook/memoryinbox":       {"api", "webhook", "webhook/engine", "webhook/reconcile"},
	"webhook/reconcile":         {"api", "events", "internal/jitter", "webhook", "webhook/internal/safecall"},

	// Test kits. Only tests and other test kits import them.
	"internal/testkit/calltest":         {".", "catalog", "clinic", "dispensarytest", "dispensarytest/model", "events", "oauth", "treatmentplans"},
	"internal/testkit/catalogstoretest": {"api", "catalog", "catalogsync", "github.com/stretchr/testify/assert", "github.com/stretchr/testify/require"},
	"internal/testkit/catalogtest":      {"catalog", "catalogsync"},
	"internal/testkit/docgen":           {},
	"internal/testkit/enginetest":       {"api", "events", "internal/testkit/logtest", "seal", "webhook", "webhook/engine", "webhook/reconcile", "github.com/stretchr/testify/assert", "github.com/stretchr/testify/require"},
	"internal/testkit/logtest":          {},
	"internal/testkit/postgrestest":     {"github.com/stretchr/testify/assert", "github.com/stretchr/testify/require"},
	"internal/testkit/ratelimittest":    {"api", "ratelimit", "github.com/stretchr/testify/assert", "github.com/stretchr/testify/require"},
	"internal/testkit/receivertest":     {"api", "events", "seal", "webhook", "github.com/stretchr/testify/require"},
	"internal/testkit/resourcetest":     {"api", "dispensarytest", "github.com/stretchr/testify/assert", "github.com/stretchr/testify/require"},
	"internal/testkit/sqltest":          {"internal/testkit/postgrestest", "internal/sqlschema", "github.com/stretchr/testify/assert", "github.com/stretchr/testify/require"},
	"internal/testkit/testsize":         {},
}

func TestImportArrows(t *testing.T) {
	t.Parallel()
	drawn := importsOf(t)
	assert.ElementsMatch(t, slices.Collect(maps.Keys(arrows)), slices.Collect(maps.Keys(drawn)), "packages")
	for folder, imports := range drawn {
		for _, imported := range slices.Sorted(maps.Keys(imports)) {
			assert.Contains(t, arrows[folder], imported, "%s must not import %s", folder, imported)
			if strings.HasPrefix(imported, "internal/testkit/") {
				assert.Contains(t, folder, "internal/testkit/", "%s is for tests", imported)
			}
		}
	}
}

// importsOf returns what the packages of this module import outside the standard
// library, tests left out. Modules nested in this one are not of it.
func importsOf(t *testing.T) map[string]map[string]bool {
	t.Helper()
	drawn := map[string]map[string]bool{}
	for _, folder := range packages(t) {
		drawn[folder] = map[string]bool{}
		for _, file := range parsed(t, token.NewFileSet(), folder, parser.ImportsOnly) {
			for _, spec := range file.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				require.NoError(t, err)
				if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") { // not the standard library
					drawn[folder][withinModule(imported)] = true
				}
			}
		}
	}
	return drawn
}

// skipFolder leaves out hidden folders, test data and nested modules.
func skipFolder(name string) error {
	if name == "." {
		return nil
	}
	if strings.HasPrefix(filepath.Base(name), ".") || filepath.Base(name) == "testdata" {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

// withinModule turns an import of this module into its folder.
func withinModule(imported string) string {
	if imported == module {
		return "."
	}
	if folder, ok := strings.CutPrefix(imported, module+"/"); ok {
		return folder
	}
	return imported
}
