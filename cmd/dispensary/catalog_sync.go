package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/ratelimit"
)

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
