package oauth

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Defaults of [BreakerPolicy]. They are choices of this library.
const (
	DefaultBreakerUsers  = 10
	DefaultBreakerWindow = 5 * time.Minute
	DefaultBreakerPause  = 15 * time.Minute
)

// BreakerPolicy says when refreshing in the background pauses because the
// platform refuses one refresh token after another. A user who revokes the
// application is one; many within minutes are not their own doing.
//
// The breaker trips when, within Window, Users or more different users were
// answered invalid_grant and no fewer than were refreshed. It raises one
// [BreakerTripped] and one log record, and a [Refresher] rests for Pause. Then
// counting begins anew. If the breaker trips again within Pause of that, it is
// the same trouble: there is another pause and no other alarm.
//
// Calls of users go on meanwhile: who is refused is marked, because that user's
// token is of no use. Every process has a breaker of its own.
type BreakerPolicy struct {
	// Users is the number of refused users; 0 means [DefaultBreakerUsers].
	Users int

	// Window is the time to count in; 0 means [DefaultBreakerWindow].
	Window time.Duration

	// Pause is for how long to stop; 0 means [DefaultBreakerPause].
	Pause time.Duration
}

func (p BreakerPolicy) withDefaults() BreakerPolicy {
	if p.Users == 0 {
		p.Users = DefaultBreakerUsers
	}
	if p.Window == 0 {
		p.Window = DefaultBreakerWindow
	}
	if p.Pause == 0 {
		p.Pause = DefaultBreakerPause
	}
	return p
}

func (p BreakerPolicy) problem() string {
	if p.Users < 0 || p.Window < 0 || p.Pause < 0 {
		return "must not hold negative values"
	}
	return ""
}

// breaker counts the results of refreshes.
type breaker struct {
	mu sync.Mutex

	// The window slides by halves: what happened in this half and in the one
	// before counts.
	now, before tally

	until    time.Time // end of the pause
	episodes time.Time // a trip before this is no new alarm
}

type tally struct {
	began     time.Time
	refused   map[Key]struct{}
	refreshed int
}

// refused counts a user and returns how many there are if that trips it.
func (b *breaker) refused(policy BreakerPolicy, key Key) (users int, tripped, alarm bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.slide(policy, now)
	if now.Before(b.until) {
		return 0, false, false
	}
	if b.now.refused == nil {
		b.now.refused = map[Key]struct{}{}
	}
	b.now.refused[key] = struct{}{}
	users = len(b.now.refused)
	for earlier := range b.before.refused {
		if _, again := b.now.refused[earlier]; !again {
			users++
		}
	}
	if users < policy.Users || users < b.now.refreshed+b.before.refreshed {
		return users, false, false
	}
	alarm = !now.Before(b.episodes)
	b.until = now.Add(policy.Pause)
	b.episodes = b.until.Add(policy.Pause)
	b.now, b.before = tally{}, tally{}
	return users, true, alarm
}

// refreshed counts a refresh that worked.
func (b *breaker) refreshed(policy BreakerPolicy) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slide(policy, time.Now())
	b.now.refreshed++
}

func (b *breaker) slide(policy BreakerPolicy, now time.Time) {
	half := policy.Window / 2
	switch age := now.Sub(b.now.began); {
	case age >= 2*half:
		b.now, b.before = tally{began: now}, tally{}
	case age >= half:
		b.now, b.before = tally{began: now}, b.now
	}
}

func (b *breaker) pausedUntil() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.until
}

func (b *breaker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now, b.before, b.until, b.episodes = tally{}, tally{}, time.Time{}, time.Time{}
}

// noteRefusal counts a user whose refresh token was refused.
func (c *Client) noteRefusal(ctx context.Context, key Key) {
	policy := c.config.Breaker
	users, tripped, alarm := c.breaker.refused(policy, key)
	if !tripped {
		return
	}
	level := slog.LevelError
	if !alarm {
		level = slog.LevelInfo
	}
	until := c.breaker.pausedUntil()
	c.logger.LogAttrs(ctx, level, "dispensary oauth: the platform refuses one user after another (were scopes added to the application?); refreshing in the background pauses",
		slog.String("environment", c.Environment().String()), slog.Int("users", users), slog.Time("until", until))
	if alarm {
		c.notify(ctx, BreakerTripped{Environment: c.Environment(), Users: users, Window: policy.Window, Until: until})
	}
}

// RefreshPaused returns until when refreshing in the background pauses in this
// process, because the breaker tripped ([BreakerPolicy]) or the platform refused
// the application ([ConfigError]), and true if it does. It is made for a health
// check.
func (c *Client) RefreshPaused() (until time.Time, paused bool) {
	until = c.breaker.pausedUntil()
	if f := c.fault.Load(); f != nil && f.until.After(until) {
		until = f.until
	}
	return until, time.Now().Before(until)
}

// ResumeRefresh ends the pauses that [Client.RefreshPaused] tells of and forgets
// what led to them: for an operator who has mended the cause.
func (c *Client) ResumeRefresh() {
	c.breaker.reset()
	c.fault.Store(nil)
}
