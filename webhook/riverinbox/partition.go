package riverinbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// partition is the arguments of a job, and all that a job holds: the ordering key whose
// events are due, or the key of an event that has none.
type partition struct {
	Subject string `json:"subject,omitempty"`
	Event   string `json:"event,omitempty"`

	// retryAt is when a job that failed is due again; River asks for it after
	// Work, with the same arguments.
	retryAt time.Time
}

// Kind is how River calls these jobs.
func (partition) Kind() string { return "dispensary_webhook" }

func (r *newRow) partition() partition {
	if r.subject != "" {
		return partition{Subject: r.subject}
	}
	return partition{Event: r.key}
}

// insertJobs inserts a job for each partition, which makes a worker come. River has a faster
// way for thousands of jobs, which costs more round trips: it is slower here.
func (i *Inbox) insertJobs(ctx context.Context, tx pgx.Tx, partitions []partition) error {
	if len(partitions) == 0 {
		return nil
	}
	jobs := make([]river.InsertManyParams, len(partitions))
	for n, l := range partitions {
		jobs[n] = river.InsertManyParams{Args: l, InsertOpts: &i.jobs}
	}
	if _, err := i.client.InsertManyTx(ctx, tx, jobs); err != nil {
		return fmt.Errorf("riverinbox: inserting jobs: %w", err)
	}
	return nil
}
