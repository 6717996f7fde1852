package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/ratelimit"
)

// defaultBudget is half of what the platform is assumed to allow, so that the rest is left for
// those who work meanwhile.
const defaultBudget = 500

// syncCommand is the command with its flags.
type syncCommand struct {
	catalogStore
	budget, prefetch int
	details, filters bool
}

func newSyncCommand(p *program) *cobra.Command {
	c := syncCommand{catalogStore: catalogStore{program: p}}
	command := &cobra.Command{
		Use:   "sync",
		Short: "Read the catalog into the copy, or go on where that was interrupted",
		Long: `Sync reads the platform's list of products, and stores each page as it comes. It may be ended at
any time, with Ctrl-C or otherwise: the next sync goes on there, within a day. A product that the
list does not have is missing after one sync and gone after two, if the platform does not have
it by its id either.

It prints a line for each tenth of the list.`,
		Example: `  dispensary catalog sync
  dispensary catalog sync --store /var/lib/ehr/catalog.db --budget 60
  dispensary catalog sync --details --filters --prefetch 8 --user dr-house`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return c.run(command.Context()) },
	}
	flags := command.Flags()
	c.catalogStore.define(flags)
	c.defineUser(flags)
	flags.IntVar(&c.budget, "budget", defaultBudget, "make at most `NUMBER` requests in any minute")
	flags.IntVar(&c.prefetch, "prefetch", 4, "read `NUMBER` pages at the same time")
	flags.BoolVar(&c.details, "details", false, "then read what lists do not show, one request for each product that never was")
	flags.BoolVar(&c.filters, "filters", false, "then search for each ingredient and allergen, so that products can be filtered by them")
	return command
}

// run reads the catalog.
func (c *syncCommand) run(ctx context.Context) (err error) {
	budget, err := ratelimit.New(c.budget, time.Minute)
	if err != nil {
		return errors.New("--budget: at least 1")
	}
	client, closed, err := c.client(ctx, c.target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, failed(closed())) }()
	store, err := c.open(ctx, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, failed(store.db.Close())) }()
	shown := &syncProgress{p: c.program}
	syncer, err := catalogsync.NewSyncer(catalogsync.SyncerConfig{
		Catalog: client.Catalog, Store: store, Limiter: budget, Prefetch: c.prefetch,
		Filters: c.filters, Details: c.details, OnProgress: shown.page,
	})
	if err != nil {
		return asFlags(err, map[string]string{"catalogsync.SyncerConfig.Prefetch": "--prefetch"})
	}
	walk, err := syncer.Sync(ctx)
	if err == nil && c.details {
		err = syncer.FetchRequested(ctx)
	}
	if err != nil {
		return shown.ended(ctx, store, walk, err)
	}
	return failed(errors.Join(shown.err, shown.done(walk)))
}

// syncDocument is what sync prints with --json: a line for each page, and one at the end.
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

// syncProgress shows how far a sync is.
type syncProgress struct {
	p      *program
	last   catalogsync.Progress
	tenths int   // of the list, that lines were printed for
	err    error // of writing
}

// page shows a page that was stored.
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

// products is how many products the pages have that are stored.
func products(at catalogsync.Progress) int { return min(at.Walk.Page*at.Walk.PageSize, at.Walk.Total) }

func (s *syncProgress) document(done bool) syncDocument {
	at := s.last
	return syncDocument{
		at.Walk.Page, max(at.Pages, at.Walk.Page), products(at), at.Counts.Created, at.Counts.Updated, at.Walk.Skipped, at.Requests,
		at.Walk.Missing, at.Walk.Gone, done,
	}
}

// ended says how a sync ended that did not come to its end, and what the next one does.
func (s *syncProgress) ended(ctx context.Context, store *catalogCopy, walk catalogstore.Walk, err error) error {
	switch {
	case errors.Is(err, catalogstore.ErrSyncing):
		return store.problem(err)
	case ctx.Err() != nil && !walk.CompletedAt.IsZero():
		return failed(errors.New("interrupted: the list was read as a whole, and the same command goes on with the rest"))
	case ctx.Err() != nil && walk.Page > 0:
		return failed(fmt.Errorf("interrupted after page %d of %d: the next sync goes on there", walk.Page, max(pagesOf(walk), s.last.Pages)))
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, catalogsync.ErrTooManySkipped):
		return failed(err)
	case !walk.CompletedAt.IsZero():
		return failed(fmt.Errorf("the list was read as a whole, but not the rest: %w", err))
	case walk.Page > 0:
		return failed(fmt.Errorf("ended after page %d, where the next sync goes on: %w", walk.Page, err))
	}
	return err
}

// done prints what a sync did.
func (s *syncProgress) done(walk catalogstore.Walk) error {
	s.last.Walk = walk
	d := s.document(true)
	if walk.Skipped > 0 {
		fmt.Fprintf(s.p.errOut, "%d products of the list were skipped, because they have no usable id\n", walk.Skipped)
	}
	row := []string{"done", strconv.Itoa(walk.Total)}
	for _, n := range []int{d.Created, d.Updated, d.Missing, d.Gone, d.Requests} {
		row = append(row, strconv.Itoa(n))
	}
	return s.p.print(d, []string{"SYNC", "PRODUCTS", "CREATED", "UPDATED", "MISSING", "GONE", "REQUESTS", "TOOK"}, [][]string{append(row, age(s.last.Elapsed))})
}
