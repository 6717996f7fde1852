package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	flag "github.com/spf13/pflag"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/ratelimit"
)

func newCatalogCommand(p *program) *cobra.Command {
	command := &cobra.Command{
		Use:   "catalog",
		Short: "Copy the catalog, search it offline and export it",
		Long: `Catalog keeps a copy of the platform's products in a file of compressed JSON. Only sync sends
requests. It resumes an interrupted sync.

By default, the file is in the folder dispensary of your cache folder (~/.cache on Linux), one for
each environment and base URL. Choose another file with --file.`,
		Example: `  dispensary catalog sync
  dispensary catalog search magnesium glyc
  dispensary catalog export --output products.csv`,
	}
	group(command, newSyncCommand(p), newStatusCommand(p), newSearchCommand(p), newExportCommand(p))
	return command
}

// catalogFile contains the flags for the file of the copy.
type catalogFile struct {
	*program
	target
	path string
}

func (f *catalogFile) define(flags *flag.FlagSet) {
	f.target.define(flags)
	flags.StringVar(&f.path, "file", "", "`FILE` with the copy (default: a file in the cache folder)")
}

// open loads the copy. Without Config.Catalog, it fails if no sync has read a page yet.
func (f *catalogFile) open(ctx context.Context, config catalogsync.Config) (*catalogsync.Catalog, error) {
	if f.path == "" {
		path, err := f.defaultFile()
		if err != nil {
			return nil, err
		}
		f.path = path
	}
	config.Snapshots = catalogsync.File(f.path)
	c, err := catalogsync.New(config)
	if err != nil {
		return nil, err
	}
	if err := c.Load(ctx); err != nil {
		return nil, fmt.Errorf("--file %s: %w", f.path, err)
	}
	if state := c.State(); config.Catalog == (catalog.Service{}) && state.Newest.Page == 0 && state.Complete.Generation == 0 {
		return nil, fmt.Errorf("--file %s contains no copy yet: run dispensary catalog sync", f.path)
	}
	return c, nil
}

// defaultFile returns the path of the site's file in the user's cache folder, and creates the
// folder.
func (f *catalogFile) defaultFile() (string, error) {
	c, err := f.loadConfig()
	if err != nil {
		return "", err
	}
	a, err := f.application(c, f.target)
	if err != nil {
		return "", err
	}
	folder, err := f.cacheDir()
	if err != nil {
		return "", fmt.Errorf("--file is required: %w", err)
	}
	folder = filepath.Join(folder, "dispensary")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	return filepath.Join(folder, siteFile("catalog", ".json.gz", a.Site)), nil
}

// walkDocument is the JSON document of one pass over the list of products.
type walkDocument struct {
	Generation  int64     `json:"generation"`
	StartedAt   time.Time `json:"started_at"`
	CompletedAt time.Time `json:"completed_at,omitzero"`
	Page        int       `json:"page"`
	Pages       int       `json:"pages"`
	Requests    int       `json:"requests"`
	Skipped     int       `json:"skipped"`
	Missing     int       `json:"missing"`
	Gone        int       `json:"gone"`
}

func newWalkDocument(w catalogsync.Walk) *walkDocument {
	if w.Generation == 0 {
		return nil
	}
	return &walkDocument{w.Generation, w.StartedAt, w.CompletedAt, w.Page, pagesOf(w), w.Requests, w.Skipped, w.Missing, w.Gone}
}

// statusDocument is the JSON document of status.
type statusDocument struct {
	Complete   *walkDocument `json:"complete"`
	Unfinished *walkDocument `json:"unfinished"`
	AgeSeconds *int64        `json:"age_seconds"`
	Present    int           `json:"present"`
	Missing    int           `json:"missing"`
	Gone       int           `json:"gone"`
	Detailed   int           `json:"detailed"`
	Requested  int           `json:"requested"`
	Revision   int64         `json:"revision"`
}

func newStatusCommand(p *program) *cobra.Command {
	file := catalogFile{program: p}
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the age and completeness of the copy",
		Long: `Status prints when a sync last read the whole list of products, whether a later sync is
unfinished (running or interrupted), and the number of products in the copy. Missing products
were not in the list at the last sync. Gone products no longer exist on the platform. Status
sends no request and changes nothing.

Exit codes: 0 on success. 2 if there is no copy, or it cannot be read.`,
		Example: `  dispensary catalog status
  dispensary catalog status --json --profile staging
  dispensary catalog status --file /var/lib/ehr/catalog.json.gz`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return file.printStatus(command.Context()) },
	}
	file.define(command.Flags())
	return command
}

func (f *catalogFile) printStatus(ctx context.Context) error {
	c, err := f.open(ctx, catalogsync.Config{})
	if err != nil {
		return err
	}
	state := c.State()
	d := statusDocument{
		Complete: newWalkDocument(state.Complete),
		Present:  state.Records[catalogsync.PresencePresent], Missing: state.Records[catalogsync.PresenceMissing], Gone: state.Records[catalogsync.PresenceGone],
		Detailed: state.Detailed, Requested: state.Requested, Revision: state.Revision,
	}
	complete, old, unfinished := "never", "", ""
	if d.Complete != nil {
		since := time.Since(state.Complete.StartedAt)
		d.AgeSeconds = new(int64(since.Seconds()))
		complete, old = timeText(state.Complete.CompletedAt), age(since)
	}
	if state.Newest.Generation != state.Complete.Generation {
		d.Unfinished = newWalkDocument(state.Newest)
		unfinished = fmt.Sprintf("page %d of %d, begun %s", d.Unfinished.Page, d.Unfinished.Pages, timeText(d.Unfinished.StartedAt))
	}
	row := []string{complete, old}
	for _, n := range []int{d.Present, d.Missing, d.Gone, d.Detailed, d.Requested} {
		row = append(row, strconv.Itoa(n))
	}
	return failed(f.print(d, []string{"COMPLETE", "AGE", "PRESENT", "MISSING", "GONE", "DETAILED", "REQUESTED", "UNFINISHED"}, [][]string{append(row, unfinished)}))
}

// foundDocument is the JSON document of search.
type foundDocument struct {
	Hits       []catalogsync.Hit `json:"hits"`
	AsOf       time.Time         `json:"as_of"`
	AgeSeconds int64             `json:"age_seconds"`
}

func newSearchCommand(p *program) *cobra.Command {
	file := catalogFile{program: p}
	var o catalogsync.SearchOptions
	command := &cobra.Command{
		Use:   "search [QUERY...]",
		Short: "Search the copy of the catalog offline",
		Long: `Search finds products by words of the name and brand, or by the beginnings of words, in any
order. It also finds a SKU or UPC by its beginning, and allows one typing error in a word of four
letters or more. The best matches are first. Search sends no request, changes nothing, and prints
the age of the copy: read a product from the platform again before you prescribe it.

Without a query, search lists all products that match the filters. It knows the ingredients and
allergens that "dispensary catalog sync --filters" has read.

Exit codes: 0 on success, also if it finds no product. 2 if there is no copy, or it cannot be
read.`,
		Example: `  dispensary catalog search magn glyc
  dispensary catalog search 012345678905 --json
  dispensary catalog search zinc --brand 9a1c3e8e-0c6f-4d9b-8a34-5d3c0e6a1b2f --limit 20`,
		RunE: func(command *cobra.Command, words []string) error {
			o.Query = strings.Join(words, " ")
			if o.Query == "" && o.BrandID == "" && len(o.IngredientIDs)+len(o.AllergenIDs) == 0 {
				return errors.New("search needs a query, --brand, --ingredient or --allergen")
			}
			if o.Limit < 1 {
				return errors.New("--limit must be from 1 to 100")
			}
			return file.search(command.Context(), o)
		},
	}
	flags := command.Flags()
	file.define(flags)
	flags.IntVar(&o.Limit, "limit", 10, "list up to `NUMBER` products, from 1 to 100")
	flags.StringVar(&o.BrandID, "brand", "", "list only products of the brand `ID`")
	flags.StringArrayVar(&o.IngredientIDs, "ingredient", nil, "list only products with the ingredient `ID`; repeatable")
	flags.StringArrayVar(&o.AllergenIDs, "allergen", nil, "list only products with the allergen attribute `ID`; repeatable")
	return command
}

// search loads the copy and searches it.
func (f *catalogFile) search(ctx context.Context, o catalogsync.SearchOptions) error {
	c, err := f.open(ctx, catalogsync.Config{})
	if err != nil {
		return err
	}
	result, err := c.Search(o)
	if err != nil {
		return asFlags(err, map[string]string{"limit": "--limit", "query": "the query", "filters": "--ingredient and --allergen"})
	}
	if f.json {
		return failed(f.printJSON(foundDocument{result.Hits, time.Now().Add(-result.Age), int64(result.Age.Seconds())}))
	}
	var rows [][]string
	for _, h := range result.Hits {
		rows = append(rows, []string{h.Name, h.Brand, h.SKU, h.UPC, string(h.VariantStatus), h.VariantID})
	}
	if len(rows) > 0 {
		if err := f.print(nil, []string{"NAME", "BRAND", "SKU", "UPC", "STATUS", "VARIANT"}, rows); err != nil {
			return failed(err)
		}
	}
	fmt.Fprintf(f.errOut, "%d found; the copy is %s old\n", len(rows), age(result.Age))
	return nil
}

// pagesOf returns the number of pages by the last known total of the list.
func pagesOf(w catalogsync.Walk) int {
	return max(w.Page, (w.Total+w.PageSize-1)/max(w.PageSize, 1))
}

// defaultBudget is half of the platform's assumed limit per minute. The other half is for users who
// work during a sync.
const defaultBudget = 500

// syncCommand is the command with its flags.
type syncCommand struct {
	catalogFile
	budget, prefetch int
	details, filters bool
}

func newSyncCommand(p *program) *cobra.Command {
	c := syncCommand{catalogFile: catalogFile{program: p}}
	command := &cobra.Command{
		Use:   "sync",
		Short: "Update the copy of the catalog",
		Long: `Sync reads the platform's list of products, and saves the file once a minute and at the end. You
can end it with Ctrl-C: a sync that starts within a day continues there. If a product is not in
the list, it is missing after one sync. It is gone after two syncs if the platform also does not
have its ID.

Sync prints a line for each tenth of the list, or with --json for each page. It changes only the
copy.

Exit codes: 0 if the copy is complete. 1 if sync was interrupted or failed. 2 if it sent no
request.`,
		Example: `  dispensary catalog sync
  dispensary catalog sync --file /var/lib/ehr/catalog.json.gz --budget 60
  dispensary catalog sync --details --filters --prefetch 8 --user dr-house`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return c.run(command.Context()) },
	}
	flags := command.Flags()
	c.catalogFile.define(flags)
	c.defineUser(flags)
	flags.IntVar(&c.budget, "budget", defaultBudget, "send up to `NUMBER` requests in any minute")
	flags.IntVar(&c.prefetch, "prefetch", 4, "read up to `NUMBER` pages at the same time")
	flags.BoolVar(&c.details, "details", false, "then read the details that the list omits, with one request for each product without them")
	flags.BoolVar(&c.filters, "filters", false, "then search for each ingredient and allergen, so that \"catalog search\" can filter by them")
	return command
}

// run updates the copy.
func (c *syncCommand) run(ctx context.Context) (err error) {
	budget, err := ratelimit.New(c.budget, time.Minute)
	if err != nil {
		return errors.New("--budget must be at least 1")
	}
	client, closed, err := c.client(ctx, c.target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, failed(closed())) }()
	shown := &syncProgress{p: c.program}
	products, err := c.open(ctx, catalogsync.Config{
		Catalog: client.Catalog, Limiter: budget, Prefetch: c.prefetch,
		Filters: c.filters, Details: c.details, OnProgress: shown.page,
	})
	if err != nil {
		return asFlags(err, map[string]string{"catalogsync.Config.Prefetch": "--prefetch"})
	}
	walk, err := products.Sync(ctx)
	if err == nil && c.details {
		err = products.FetchRequested(ctx)
	}
	if err != nil {
		return shown.ended(ctx, walk, err)
	}
	return failed(errors.Join(shown.err, shown.done(walk)))
}

// syncDocument is the JSON document of a page, and of the end of a sync.
type syncDocument struct {
	Page     int  `json:"page"`
	Pages    int  `json:"pages"`
	Products int  `json:"products"`
	Created  int  `json:"created"`
	Updated  int  `json:"updated"`
	Skipped  int  `json:"skipped"`
	Requests int  `json:"requests"`
	Missing  int  `json:"missing"`
	Gone     int  `json:"gone"`
	Done     bool `json:"done"`
}

// syncProgress prints the progress of a sync.
type syncProgress struct {
	p      *program
	last   catalogsync.Progress
	tenths int   // tenths of the list that were printed
	err    error // joined write errors
}

// page prints the progress after a page.
func (s *syncProgress) page(at catalogsync.Progress) {
	s.last = at
	if s.p.json {
		s.err = errors.Join(s.err, s.p.printJSON(s.document(false)))
		return
	}
	page, pages := at.Walk.Page, max(at.Pages, 1)
	if tenths := 10 * page / pages; tenths > s.tenths {
		s.tenths = tenths
		_, err := fmt.Fprintf(s.p.out, "page %d of %d\t%d of %d products\n", page, pages, products(at), at.Walk.Total)
		s.err = errors.Join(s.err, err)
	}
}

// products returns the number of products on the read pages.
func products(at catalogsync.Progress) int { return min(at.Walk.Page*at.Walk.PageSize, at.Walk.Total) }

func (s *syncProgress) document(done bool) syncDocument {
	at := s.last
	return syncDocument{
		at.Walk.Page, max(at.Pages, at.Walk.Page), products(at), at.Counts.Created, at.Counts.Updated, at.Walk.Skipped, at.Requests,
		at.Walk.Missing, at.Walk.Gone, done,
	}
}

// ended returns the error of an incomplete sync, with the place where the next sync continues.
func (s *syncProgress) ended(ctx context.Context, walk catalogsync.Walk, err error) error {
	switch {
	case ctx.Err() != nil && !walk.CompletedAt.IsZero():
		return failed(errors.New("interrupted after the whole list: repeat the command to read the rest"))
	case ctx.Err() != nil && walk.Page > 0:
		return failed(fmt.Errorf("interrupted after page %d of %d: the next sync continues there", walk.Page, max(pagesOf(walk), s.last.Pages)))
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, catalogsync.ErrTooManySkipped):
		return failed(err)
	case !walk.CompletedAt.IsZero():
		return failed(fmt.Errorf("read the whole list, but not the details or filters: %w", err))
	case walk.Page > 0:
		return failed(fmt.Errorf("failed after page %d, where the next sync continues: %w", walk.Page, err))
	}
	return err
}

// done prints the result of a complete sync.
func (s *syncProgress) done(walk catalogsync.Walk) error {
	s.last.Walk = walk
	d := s.document(true)
	if walk.Skipped > 0 {
		fmt.Fprintf(s.p.errOut, "Skipped %d products of the list without a usable id.\n", walk.Skipped)
	}
	row := []string{"done", strconv.Itoa(walk.Total)}
	for _, n := range []int{d.Created, d.Updated, d.Missing, d.Gone, d.Requests} {
		row = append(row, strconv.Itoa(n))
	}
	return s.p.print(d, []string{"SYNC", "PRODUCTS", "CREATED", "UPDATED", "MISSING", "GONE", "REQUESTS", "TOOK"}, [][]string{append(row, age(s.last.Elapsed))})
}
