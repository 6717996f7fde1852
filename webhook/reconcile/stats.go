package reconcile

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// minPause is the pause before the first retry of a clinic. It doubles with every further
// failure.
const minPause = time.Minute

// FailingClinic is a clinic whose last run in this process failed.
type FailingClinic struct {
	ClinicID string

	// Since is the start of the last run that left no work. If there was none, it is the time
	// of the first failure.
	Since time.Time

	// Failures is the number of consecutive failed runs. Next is the time of the next retry.
	Failures int
	Next     time.Time

	// Err is the error of the last run.
	Err error

	failed time.Time // time of the last failure
	busy   bool
}

// Disconnected reports whether the runs fail because no user of the clinic is connected: Err
// matches [api.ErrReauthorize]. Only a user of the clinic can fix this.
func (c FailingClinic) Disconnected() bool { return errors.Is(c.Err, api.ErrReauthorize) }

// ClinicsStats is the state of [Clinics], as known to this process.
type ClinicsStats struct {
	// PassBegan is the start of the current or last pass, by any replica. It is zero before
	// the first pass. Passing reports whether a pass is in progress.
	PassBegan time.Time
	Passing   bool

	// Running is the number of clinics in progress in this process.
	Running int

	// Failing are the clinics whose last run in this process failed, earliest Since first. If
	// Config.List no longer returns a clinic, the next pass removes it.
	Failing []FailingClinic

	// NoWebhooks is the number of clinics whose events arrive only by reconciliation.
	// NoWebhooksSince is the start of the longest [NoWebhooks]. Both cover the clinics
	// reconciled by this process since the start of the previous pass.
	NoWebhooks      int
	NoWebhooksSince time.Time

	// Retries is the number of missed events for later runs, of the same clinics.
	Retries int

	// Taken is the last time at which a replica took turns. It is old if no replica reconciles
	// the environment. It is zero before the first pass.
	Taken time.Time

	// Oldest is the time since which every clinic has been reconciled, including failing ones.
	// Now minus Oldest is the lag of the oldest clinic. It is zero before the end of the first
	// pass.
	Oldest time.Time
}

// Stats returns the state of the clinics.
func (c *Clinics) Stats() ClinicsStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := ClinicsStats{
		PassBegan: c.rotation.Began, Passing: c.rotation.passing(),
		Running: c.running, Oldest: c.rotation.Before, Taken: c.rotation.Taken,
	}
	if c.rotation.Done {
		s.Oldest = c.rotation.Began
	}
	for _, one := range c.failing {
		s.Failing = append(s.Failing, *one)
	}
	for _, one := range c.conditions {
		if one.at.Before(c.rotation.Before) {
			continue // another replica has reconciled it since
		}
		s.Retries += one.retries
		if one.noWebhooks.Counts() {
			s.NoWebhooks++
			if s.NoWebhooksSince.IsZero() || one.noWebhooks.Since.Before(s.NoWebhooksSince) {
				s.NoWebhooksSince = one.noWebhooks.Since
			}
		}
	}
	slices.SortFunc(s.Failing, func(a, b FailingClinic) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.ClinicID, b.ClinicID))
	})
	if len(s.Failing) > 0 && !s.Oldest.IsZero() {
		s.Oldest = earlier(s.Oldest, s.Failing[0].Since)
	}
	return s
}

func (c *Clinics) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running += n
}

// condition is the state of a clinic without webhooks or with retries, after its last run in
// this process.
type condition struct {
	at         time.Time
	noWebhooks NoWebhooks
	retries    int
}

// setCondition records the condition of a clinic after a run. The caller has locked c.mu.
func (c *Clinics) setCondition(clinicID string, report Report) {
	delete(c.conditions, clinicID)
	if report.NoWebhooks.Counts() || report.Retries > 0 {
		c.conditions[clinicID] = condition{report.Started, report.NoWebhooks, report.Retries}
	}
	for id, one := range c.conditions {
		if one.at.Before(c.rotation.Before) {
			delete(c.conditions, id)
		}
	}
}

// endTurn records the result of a turn that began at now. ended reports whether the loop ends.
func (c *Clinics) endTurn(clinicID string, report Report, err error, ended bool, now time.Time, interval time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !errors.Is(err, engine.ErrCheckpointHeld) && !report.Skipped {
		c.setCondition(clinicID, report)
	}
	was := c.failing[clinicID]
	if was != nil {
		was.busy = false
	}
	switch {
	case err == nil:
		delete(c.failing, clinicID)
	case ended:
		c.left = append(c.left, clinicID)
	case errors.Is(err, engine.ErrCheckpointHeld): // another replica is reconciling it
		if was != nil {
			was.Next = now.Add(minPause)
		}
	default:
		failed := &FailingClinic{ClinicID: clinicID, Since: report.Completed, Err: err, failed: now}
		if was != nil {
			failed.Failures = was.Failures
		}
		if failed.Since.IsZero() {
			failed.Since = now
			if was != nil {
				failed.Since = was.Since
			}
		}
		failed.Next = now.Add(min(interval, minPause<<min(failed.Failures, 10)))
		failed.Failures++
		c.failing[clinicID] = failed
	}
}

// disconnected reports whether the last run over a clinic failed because it has no connected
// user.
func (c *Clinics) disconnected(clinicID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.failing[clinicID]
	return one != nil && one.Disconnected()
}

func (c *Clinics) fails(clinicID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failing[clinicID] != nil
}

// nextFailing returns the failing clinic that is due first, or the wait until the next call.
func (c *Clinics) nextFailing() (turn, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first *FailingClinic
	for _, one := range c.failing {
		if !one.busy && (first == nil || one.Next.Before(first.Next)) {
			first = one
		}
	}
	if first == nil {
		return turn{}, minPause
	}
	if wait := first.Next.Sub(c.config.Now()); wait > 0 {
		return turn{}, min(wait, minPause)
	}
	first.busy = true
	return turn{first.ClinicID, first.failed}, 0
}
