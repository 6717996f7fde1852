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
// Calls of users go on meanwhile, and nobody else is marked: who is refused gets
// the platform's answer, an [*api.Error], and is asked for again minutes later. It
// may be the platform that is unwell. Where scopes were really added to the
// application, put them into [Config.Scopes]: then everybody who has to authorize
// again is known without asking. Every process has a breaker of its own.
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

// count is what came of counting a user.
type count struct {
	users   int  // how many there are
	open    bool // it had tripped before, and nothing was counted
	tripped bool // by this user
	alarm   bool // for the first time in this trouble
}

// refused counts a user.
func (b *breaker) refused(policy BreakerPolicy, key Key) count {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.slide(policy, now)
	if now.Before(b.until) {
		return count{open: true}
	}
	if b.now.refused == nil {
		b.now.refused = map[Key]struct{}{}
	}
	b.now.refused[key] = struct{}{}
	users := len(b.now.refused)
	for earlier := range b.before.refused {
		if _, again := b.now.refused[earlier]; !again {
			users++
		}
	}
	if users < policy.Users || users < b.now.refreshed+b.before.refreshed {
		return count{users: users}
	}
	alarm := !now.Before(b.episodes)
	b.until = now.Add(policy.Pause)
	b.episodes = b.until.Add(policy.Pause)
	b.now, b.before = tally{}, tally{}
	return count{users: users, tripped: true, alarm: alarm}
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

// noteRefusal counts a user whose refresh token was refused, and reports whether
// the user is to be marked for it.
func (c *Client) noteRefusal(ctx context.Context, key Key) (mark bool) {
	policy := c.config.Breaker
	counted := c.breaker.refused(policy, key)
	if !counted.tripped {
		return !counted.open
	}
	level := slog.LevelError
	if !counted.alarm {
		level = slog.LevelInfo
	}
	until := c.breaker.pausedUntil()
	c.logger.LogAttrs(ctx, level, "dispensary oauth: the platform refuses one user after another (were scopes added to the application?); refreshing in the background pauses, and no other user is marked",
		slog.String("environment", c.Environment().String()), slog.Int("users", counted.users), slog.Time("until", until))
	if counted.alarm {
		c.notify(ctx, BreakerTripped{Environment: c.Environment(), Users: counted.users, Window: policy.Window, Until: until})
	}
	return true
}

// unmarkedError is a refused refresh token that may not be the user's doing.
type unmarkedError struct {
	key   Key
	until time.Time // when the breaker closes
	err   error
}

func (e *unmarkedError) Error() string {
	return "dispensary: the refresh token of " + e.key.String() + " was refused, and those of many others: nobody is marked for now: " + e.err.Error()
}

func (e *unmarkedError) Unwrap() error { return e.err }

// RefreshPaused returns until when refreshing in the background pauses in this
// process, because the breaker tripped ([BreakerPolicy]) or the platform refused
// the application ([ConfigError]), and true if it does. It is made for a health
// check.
func (c *Client) RefreshPaused() (until time.Time, paused bool) {
	until = c.breaker.pausedUntil()
	if _, end := c.faults.paused(); end.After(until) {
		until = end
	}
	return until, time.Now().Before(until)
}

// ResumeRefresh ends the pauses that [Client.RefreshPaused] tells of and forgets
// what led to them: for an operator who has mended the cause.
func (c *Client) ResumeRefresh() {
	c.breaker.reset()
	c.faults.clear()
}
