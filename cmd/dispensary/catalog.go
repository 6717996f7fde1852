package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

func newCatalogCommand(p *program) *cobra.Command {
	command := &cobra.Command{
		Use:   "catalog",
		Short: "Keep a copy of the catalog, search it offline, and export it",
		Long: `Catalog keeps a copy of the platform's products in a SQLite file, or in PostgreSQL. Sync reads
it, and goes on where it was interrupted; the other commands call nothing.

The file is in folder dispensary of your cache folder (~/.cache on Linux), with its own name for
each environment and base URL, unless --store names another one.`,
		Example: `  dispensary catalog sync
  dispensary catalog search magnesium glyc
  dispensary catalog export --output products.csv`,
	}
	group(command, newSyncCommand(p), newStatusCommand(p), newSearchCommand(p), newExportCommand(p))
	return command
}

// walkDocument is a walk as status prints it.
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

func newWalkDocument(w catalogstore.Walk) *walkDocument {
	if w.Generation == 0 {
		return nil
	}
	return &walkDocument{w.Generation, w.StartedAt, w.CompletedAt, w.Page, pagesOf(w), w.Requests, w.Skipped, w.Missing, w.Gone}
}

// statusDocument is what status prints with --json.
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
	store := catalogStore{program: p}
	command := &cobra.Command{
		Use:   "status",
		Short: "Say how old and how whole the copy of the catalog is",
		Long: `Status says when the list of products was last read as a whole, whether a later reading is
unfinished, because it is under way or was interrupted, and how many products there are: missing
are those that the last reading did not see, gone those that the platform does not have any more.`,
		Example: `  dispensary catalog status
  dispensary catalog status --json --profile staging
  dispensary catalog status --store /var/lib/ehr/catalog.db`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return store.printStatus(command.Context()) },
	}
	store.define(command.Flags())
	return command
}

func (s *catalogStore) printStatus(ctx context.Context) error {
	store, err := s.open(ctx, false)
	if err != nil {
		return err
	}
	defer func() { _ = store.db.Close() }() // it is only read
	state, err := store.State(ctx)
	if err != nil {
		return store.problem(err)
	}
	d := statusDocument{
		Complete: newWalkDocument(state.Complete),
		Present:  state.Records[catalogstore.PresencePresent], Missing: state.Records[catalogstore.PresenceMissing], Gone: state.Records[catalogstore.PresenceGone],
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
	return failed(s.print(d, []string{"COMPLETE", "AGE", "PRESENT", "MISSING", "GONE", "DETAILED", "REQUESTED", "UNFINISHED"}, [][]string{append(row, unfinished)}))
}

// foundDocument is what search prints with --json.
type foundDocument struct {
	Hits       []catalogsync.Hit `json:"hits"`
	AsOf       time.Time         `json:"as_of"`
	AgeSeconds int64             `json:"age_seconds"`
}

func newSearchCommand(p *program) *cobra.Command {
	store := catalogStore{program: p}
	var o catalogsync.SearchOptions
	command := &cobra.Command{
		Use:   "search [QUERY...]",
		Short: "Search the copy of the catalog, without a network",
		Long: `Search finds products by words of their name and brand, or the beginnings of these, in any
order; by a SKU or UPC, or a beginning of it; and with one typing error in a word of four letters
or more. The best are first. It calls nothing, and says how old the copy is: what is to be
prescribed has to be read from the platform again.

Without a query it lists what the filters keep. Ingredients and allergens are those that
dispensary catalog sync --filters read.`,
		Example: `  dispensary catalog search magn glyc
  dispensary catalog search 012345678905 --json
  dispensary catalog search zinc --brand 9a1c3e8e-0c6f-4d9b-8a34-5d3c0e6a1b2f --limit 20`,
		RunE: func(command *cobra.Command, words []string) error {
			o.Query = strings.Join(words, " ")
			if o.Query == "" && o.BrandID == "" && len(o.IngredientIDs)+len(o.AllergenIDs) == 0 {
				return errors.New("search wants a query, --brand, --ingredient or --allergen")
			}
			if o.Limit < 1 {
				return errors.New("--limit must be from 1 to 100")
			}
			return store.search(command.Context(), o)
		},
	}
	flags := command.Flags()
	store.define(flags)
	flags.IntVar(&o.Limit, "limit", 10, "`NUMBER` of products at most")
	flags.StringVar(&o.BrandID, "brand", "", "products of the brand `ID` only")
	flags.StringArrayVar(&o.IngredientIDs, "ingredient", nil, "products with the ingredient `ID` only; may be repeated")
	flags.StringArrayVar(&o.AllergenIDs, "allergen", nil, "products with the allergen attribute `ID` only; may be repeated")
	return command
}

// search searches an index that it makes of the copy.
func (s *catalogStore) search(ctx context.Context, o catalogsync.SearchOptions) error {
	store, err := s.open(ctx, false)
	if err != nil {
		return err
	}
	defer func() { _ = store.db.Close() }() // it is only read
	var searcher catalogsync.Searcher
	if err := searcher.Load(ctx, store); err != nil {
		return store.problem(err)
	}
	result, err := searcher.Search(o)
	if err != nil {
		return asFlags(err, map[string]string{"limit": "--limit", "query": "the query", "filters": "--ingredient and --allergen"})
	}
	if s.json {
		return failed(s.printJSON(foundDocument{result.Hits, time.Now().Add(-result.Age), int64(result.Age.Seconds())}))
	}
	var rows [][]string
	for _, h := range result.Hits {
		rows = append(rows, []string{h.Name, h.Brand, h.SKU, h.UPC, string(h.VariantStatus), h.VariantID})
	}
	if len(rows) > 0 {
		if err := s.print(nil, []string{"NAME", "BRAND", "SKU", "UPC", "STATUS", "VARIANT"}, rows); err != nil {
			return failed(err)
		}
	}
	fmt.Fprintf(s.errOut, "%d found, as of %s ago\n", len(rows), age(result.Age))
	return nil
}
