package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func TestCatalogIsSyncedAndSearched(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	site := dispensary.USSandbox.At(f.platform.Site().BaseURL)
	file := filepath.Join(f.folder, "cache", "dispensary", siteFile("catalog", ".json.gz", site))
	f.rejected("--file "+file+" contains no copy yet", "catalog", "status")
	assert.NoFileExists(t, file)

	out, _ := f.ran("catalog", "sync")
	products := len(f.platform.Products.All())
	n := strconv.Itoa(products)
	assert.Equal(t, "page 1 of 1\t"+n+" of "+n+" products\ndone\t"+n+"\t"+n+"\t0\t0\t0\t1\t0 s\n", out)
	assert.FileExists(t, file)
	out, _ = f.ran("catalog", "sync", "--details", "--filters", "--json")
	assert.Equal(t, 2, assertDocuments(t, "catalog sync", out))
	out, _ = f.ran("catalog", "status", "--json")
	assert.Equal(t, 1, assertDocuments(t, "catalog status", out))
	var status statusDocument
	require.NoError(t, json.Unmarshal([]byte(out), &status))
	assert.Equal(t, []int{products, 0, 0, products}, []int{status.Present, status.Missing, status.Gone, status.Detailed})
	assert.Nil(t, status.Unfinished)
	out, _ = f.ran("catalog", "status")
	assert.Contains(t, out, "\t"+n+"\t0\t0\t"+n+"\t0\t")

	requests := len(f.platform.Journal.Requests())
	delete(f.variables, "DISPENSARY_ACCESS_TOKEN") // the following commands send no request
	out, stderr := f.ran("catalog", "search", "glyc", "magnezium")
	assert.True(t, strings.HasPrefix(out, "Magnesium Glycinate\t"), out)
	assert.Regexp(t, `^1 found; the copy is \d+ s old\n$`, stderr)
	out, _ = f.ran("catalog", "search", "magn", "--json", "--limit", "1")
	assert.Equal(t, 1, assertDocuments(t, "catalog search", out))
	product := f.platform.Products.All()[0]
	out, _ = f.ran("catalog", "search", "--brand", product.BrandID, "--ingredient", product.IngredientIDs[0], "--limit", "100", "--json")
	assert.Contains(t, out, product.ID)
	out, stderr = f.ran("catalog", "search", "xyzzy")
	assert.Empty(t, out)
	assert.Contains(t, stderr, "0 found")
	assert.Len(t, f.platform.Journal.Requests(), requests)

	f.rejected("search needs a query", "catalog", "search")
	f.rejected("--limit must be from", "catalog", "search", "x", "--limit", "1000")
	f.rejected("--limit must be from", "catalog", "search", "x", "--limit", "0")
	f.rejected("the query is longer", "catalog", "search", strings.Repeat("x", 300))
	f.rejected("--budget must be at least 1", "catalog", "sync", "--budget", "0")
}

func TestCatalogExportsProducts(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	f.ran("catalog", "sync")
	out, stderr := f.ran("catalog", "export", "--json")
	products := len(f.platform.Products.All())
	assert.Equal(t, products, assertDocuments(t, "catalog export", out))
	assert.Equal(t, strconv.Itoa(products)+" products; next time, use --changes-since "+strconv.Itoa(products)+"\n", stderr)

	created, _, err := f.platform.Products.Create(model.ProductCreate{Name: `=HYPERLINK("x")`, Variants: []model.VariantCreate{{}, {}}})
	require.NoError(t, err)
	f.ran("catalog", "sync")
	out, _ = f.ran("catalog", "export", "--changes-since", strconv.Itoa(products), "--json")
	assert.Equal(t, 1, assertDocuments(t, "catalog export", out))
	assert.Contains(t, out, `"name":"=HYPERLINK(\"x\")"`, "JSON contains the exact name")

	f.ran("catalog", "sync", "--details")
	file := filepath.Join(t.TempDir(), "products.csv")
	require.NoError(t, os.WriteFile(file, []byte("before"), 0o600))
	out, stderr = f.ran("catalog", "export", "--output", file)
	assert.Empty(t, out)
	assert.Regexp(t, `^\d+ products; next time, use --changes-since \d+ and another file, because it exports only changes\n$`, stderr)
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	rows, err := csv.NewReader(bytes.NewReader(content)).ReadAll()
	require.NoError(t, err)
	assert.Equal(t, csvColumns, rows[0])
	variants := 0
	for _, p := range f.platform.Products.All() {
		variants += len(p.VariantIDs)
	}
	assert.Len(t, rows, 1+variants)
	at := slices.IndexFunc(rows, func(row []string) bool { return row[0] == created.ID })
	assert.Equal(t, `'=HYPERLINK("x")`, rows[at][1], "a spreadsheet shows text instead of a formula")
	assert.NotEqual(t, rows[at][6], rows[at+1][6], "each variant has a row")
	assert.ElementsMatch(t, []string{"true", "false"}, []string{rows[at][7], rows[at+1][7]})

	require.NoError(t, f.platform.Products.Remove(created.ID)) // missing after one sync, gone after two
	f.ran("catalog", "sync")
	f.ran("catalog", "sync")
	out, _ = f.ran("catalog", "export")
	assert.NotContains(t, out, created.ID)
	out, _ = f.ran("catalog", "export", "--changes-since", strconv.Itoa(products))
	assert.Contains(t, out, ",gone,")
	_, stderr = f.ran("catalog", "export", "--changes-since", "0")
	_, revision, _ := strings.Cut(strings.TrimSpace(stderr), "--changes-since ")
	out, stderr = f.ran("catalog", "export", "--changes-since", revision, "--json")
	assert.Empty(t, out)
	assert.Equal(t, "0 products; next time, use --changes-since "+revision+"\n", stderr)

	f.rejected("--changes-since must be at most "+revision+", the newest revision", "catalog", "export", "--changes-since", "1000000000")
	f.rejected("--changes-since must not be negative", "catalog", "export", "--changes-since", "-1")
	f.rejected("--output: ", "catalog", "export", "--output", f.folder)
	f.rejected("--output: ", "catalog", "export", "--output", filepath.Join(f.folder, "absent", "x.csv"))
}

// A failed export leaves no temporary file.
func TestFailedCatalogExportKeepsOldFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "products.csv")
	require.NoError(t, os.WriteFile(file, []byte("before"), 0o600))
	to, err := newExportFile(file, nil)
	require.NoError(t, err)
	_, err = to.Write(make([]byte, 1_000_000))
	require.NoError(t, err)
	to.discard()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "before", string(content))
	left, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	assert.Len(t, left, 1)
}

// After an interruption, the next sync continues at the printed page.
func TestCatalogSyncResumes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dispensarytest.WithTuning(dispensarytest.Tuning{WorldSize: model.WorldSize{Products: 1_000}})).withToken()
	ctx, interrupt := context.WithCancel(t.Context())
	var out, stderr bytes.Buffer
	stdout := writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("page 3 of 1")) {
			interrupt()
		}
		return out.Write(p)
	})
	assert.Equal(t, exitFailed, f.program(nil, stdout, &stderr).run(ctx, []string{"catalog", "sync", "--prefetch", "2"}))
	assert.Regexp(t, `^dispensary: interrupted after page [34] of 1\d: the next sync continues there\n$`, stderr.String())
	assert.Regexp(t, `^page 1 of 1\d\t100 of \d+ products\npage 2 of `, out.String())
	status, _ := f.ran("catalog", "status")
	assert.Regexp(t, `^never\t\t[34]00\t.*\tpage [34] of 1\d, begun `, status)

	read := len(f.platform.Journal.Requests("products.list"))
	text, _ := f.ran("catalog", "sync")
	assert.NotContains(t, text, "page 1 of")
	assert.LessOrEqual(t, len(f.platform.Journal.Requests("products.list"))-read, 9, "the stored pages are not read again")
	status, _ = f.ran("catalog", "status", "--json")
	var d statusDocument
	require.NoError(t, json.Unmarshal([]byte(status), &d))
	assert.Equal(t, len(f.platform.Products.All()), d.Present)
	assert.Equal(t, int64(1), d.Complete.Generation)
}

// writerFunc implements [io.Writer] with a function.
type writerFunc func([]byte) (int, error)

// Write implements [io.Writer].
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// The error of a failure after the whole list names no page.
func TestCatalogSyncReportsFailureAfterList(t *testing.T) {
	t.Parallel()
	for flag, operation := range map[string]string{"--details": "products.get", "--filters": "ingredients.list"} {
		f := newFixture(t).withToken()
		f.platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 403, Operation: operation})
		code, _, stderr := f.run("catalog", "sync", flag)
		assert.Equal(t, exitFailed, code, flag)
		assert.Contains(t, stderr, "read the whole list, but not the details or filters", flag)
		assert.NotContains(t, stderr, "failed after page", flag)
		assert.Contains(t, stderr, "403 Forbidden", flag)
	}
}

// The commands reject a file that is not a copy of the catalog, and leave it unchanged.
func TestCatalogRejectsForeignFiles(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	folder := t.TempDir()
	foreign, absent := filepath.Join(folder, "foreign.txt"), filepath.Join(folder, "absent")
	require.NoError(t, os.WriteFile(foreign, []byte(strings.Repeat("no copy ", 1000)), 0o600))
	for file, want := range map[string]string{
		foreign: "--file " + foreign + ": catalogsync: not a snapshot of a catalog: gzip: invalid header",
		folder:  "--file " + folder + ": catalogsync: load the snapshot: ",
	} {
		before, _ := os.ReadFile(file)
		for _, args := range [][]string{{"sync"}, {"status"}, {"search", "x"}, {"export"}} {
			f.rejected(want, append(append([]string{"catalog"}, args...), "--file", file)...)
		}
		after, _ := os.ReadFile(file)
		assert.Equal(t, before, after, file)
	}
	f.rejected("--file "+absent+" contains no copy yet", "catalog", "search", "x", "--file", absent)
}

func TestCatalogSyncReportsSkippedProducts(t *testing.T) {
	t.Parallel()
	var out, stderr bytes.Buffer
	s := syncProgress{p: newFixture(t).program(nil, &out, &stderr)}
	require.NoError(t, s.done(catalogsync.Walk{Generation: 1, Page: 1, PageSize: 100, Total: 20, Skipped: 2}))
	assert.Equal(t, "Skipped 2 products of the list without a usable id.\n", stderr.String())
}

func TestNoFormulaQuotesFormulas(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "Zinc": "Zinc", "=1": "'=1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\tx": "'\tx", "\rx": "'\rx", "\nx": "'\nx", "＝1": "'＝1", "1=": "1=", "é": "é",
	} {
		assert.Equal(t, want, noFormula(text))
	}
}
