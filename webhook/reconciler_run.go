package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Run looks once for events that were missed, and accepts them into the inbox:
// events of all groups, the oldest first.
//
// An error says that something is left to do, and for the groups concerned
// [GroupReport.Err] says why. Nothing is lost by it: the next run goes on from
// the checkpoint, and reads no event again that has been accepted. While another
// replica is at it, and if another one took over because this one was held up
// for too long, the error is [ErrCheckpointHeld].
//
// What can never be recovered is no error: see [Report.Gaps].
func (r *Reconciler) Run(ctx context.Context) (Report, error) { return r.run(ctx, 0) }

// run skips what was done less than fresh ago.
func (r *Reconciler) run(ctx context.Context, fresh time.Duration) (Report, error) {
	n := &run{config: r.config, now: r.config.Now(), found: map[string]*missed{}}
	n.report.Started = n.now
	err := n.claimed(ctx, fresh)
	n.report.Duration = r.config.Now().Sub(n.now)
	n.log(ctx, err)
	if r.config.Observe != nil && !n.report.Skipped {
		safecall.Observe(ctx, r.config.Logger, func() { r.config.Observe(ctx, n.report, err) })
	}
	return n.report, err
}

// run is one run of a Reconciler. It lists what was missed, and reads and
// accepts it only then: lists come with the newest first, as they can be broken
// off then where the last run began, and events are accepted with the oldest
// first.
type run struct {
	config       ReconcilerConfig
	now          time.Time
	lease        *lease
	state        checkpoint
	integrations []string
	walks        []*walk
	notices      *walk              // through the delivery log
	found        map[string]*missed // by event id
	kept         int                // bytes of data in found
	doubtful     []Gap              // that were refused, perhaps because the inbox failed
	report       Report
}

// claimed does everything that has to be done while no other replica does it.
func (n *run) claimed(ctx context.Context, fresh time.Duration) (err error) {
	working, lease, err := claim(ctx, &n.config)
	if err != nil {
		return fmt.Errorf("webhook: reconciling: %w", err)
	}
	n.lease = lease
	defer func() {
		lease.release()
		// Whatever failed because the claim was lost, that is why.
		if err != nil {
			if cause := context.Cause(working); ctx.Err() == nil && cause != errReleased {
				err = cause
			}
			err = fmt.Errorf("webhook: reconciling: %w", err)
		}
	}()
	if err := n.state.read(lease.state); err != nil {
		return err
	}
	if since := n.now.Sub(n.state.Completed); since >= 0 && since < fresh {
		n.report.Skipped = true
		return nil
	}
	if err := n.prepare(working); err != nil {
		return err
	}
	if err := n.list(working); err != nil {
		return err
	}
	if err := n.recover(working); err != nil {
		return errors.Join(err, n.save(context.WithoutCancel(working)))
	}
	return n.complete(working)
}

// prepare finds out where the run begins.
func (n *run) prepare(ctx context.Context) error {
	var ids []string
	err := safecall.Call(func() (err error) {
		ids, err = n.config.Integrations(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("integrations: %w", err)
	}
	if len(ids) == 0 {
		return errors.New("integrations: there is none")
	}
	n.integrations = slices.Compact(slices.Sorted(slices.Values(ids)))
	n.report.Groups = make([]GroupReport, len(n.config.Groups))
	restart := n.state.begin(n.integrations, n.now, n.config.FirstRun)
	n.notices = &walk{rank: len(n.config.Groups), from: n.state.Notices.Add(-n.config.Overlap), report: &GroupReport{}}
	for i, group := range n.config.Groups {
		n.report.Groups[i].Group = group
		p := n.state.Groups[group]
		n.walks = append(n.walks, &walk{group: group, rank: i, from: n.state.from(group, n.config.Overlap), report: &n.report.Groups[i]})
		if lost := n.now.Add(-retained); !p.Checked.IsZero() && p.Checked.Before(lost) {
			n.report.Gaps = append(n.report.Gaps, Gap{Group: group, From: p.Checked, To: lost})
		}
	}
	if restart {
		return n.save(ctx)
	}
	return nil
}

// list finds out what was missed. A group that cannot be listed keeps no other
// from it.
func (n *run) list(ctx context.Context) error {
	if err := n.listNotices(ctx); err != nil {
		return err
	}
	for _, w := range n.walks {
		if err := n.listGroup(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// complete notes what has been settled, and joins what has not.
func (n *run) complete(ctx context.Context) error {
	var failed []error
	for _, w := range n.walks {
		if w.listed {
			n.state.settle(w, n.now)
		}
		if err := w.report.Err; err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", w.group, err))
		}
	}
	if n.notices.listed && n.notices.stuck.IsZero() {
		n.state.Notices = later(n.state.Notices, earlier(n.notices.newest, n.now))
	}
	if err := n.notices.report.Err; err != nil {
		failed = append(failed, err)
	}
	if len(failed) == 0 {
		n.state.Completed = n.now
	}
	return errors.Join(append(failed, n.save(ctx))...)
}

func (n *run) save(ctx context.Context) error {
	state, err := n.state.write()
	if err != nil {
		return err
	}
	return n.lease.save(ctx, state)
}

// ends reports an error after which there is no point in going on with this run.
func ends(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, ErrInboxClosed) || errors.Is(err, api.ErrRateLimited) || errors.Is(err, api.ErrUnauthorized) || errors.Is(err, api.ErrReauthorize)
}

func (n *run) log(ctx context.Context, err error) {
	level, message := slog.LevelInfo, "webhook events reconciled"
	attrs := []slog.Attr{slog.String("name", n.config.Name), slog.Any("report", n.report)}
	switch {
	case n.report.Skipped || errors.Is(err, ErrCheckpointHeld):
		level = slog.LevelDebug
	case err != nil:
		level = slog.LevelError
	case len(n.report.Gaps) > 0:
		level = slog.LevelWarn
	}
	if err != nil {
		message = "webhook events not reconciled"
		attrs = append(attrs, slog.String("reason", err.Error()))
	}
	if len(n.report.Gaps) > 0 {
		attrs = append(attrs, slog.String("first_gap", n.report.Gaps[0].String()))
	}
	n.config.Logger.LogAttrs(ctx, level, message, attrs...)
}
