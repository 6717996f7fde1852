package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary/catalogsync"
)

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

func newWalkDocument(w catalogsync.Walk) *walkDocument {
	if w.Generation == 0 {
		return nil
	}
	return &walkDocument{w.Generation, w.StartedAt, w.CompletedAt, w.Page, pagesOf(w), w.Requests, w.Skipped, w.Missing, w.Gone}
}

// pagesOf is how many pages the list had, as it said last.
func pagesOf(w catalogsync.Walk) int {
	return max(w.Page, (w.Total+w.PageSize-1)/max(w.PageSize, 1))
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

func (p *program) catalogStatusCommand() *cobra.Command {
	var store catalogStore
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
		RunE: func(command *cobra.Command, _ []string) error { return p.catalogStatus(command.Context(), store) },
	}
	store.define(command.Flags())
	return command
}

func (p *program) catalogStatus(ctx context.Context, s catalogStore) error {
	store, err := s.open(ctx, p, false)
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
		Present:  state.Records[catalogsync.Present], Missing: state.Records[catalogsync.Missing], Gone: state.Records[catalogsync.Gone],
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
	return failed(p.print(d, []string{"COMPLETE", "AGE", "PRESENT", "MISSING", "GONE", "DETAILED", "REQUESTED", "UNFINISHED"}, [][]string{append(row, unfinished)}))
}

// age is a duration as a person says it.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + " d"
}
