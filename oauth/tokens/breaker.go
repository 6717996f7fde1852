package tokens

import (
	"cmp"
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
// [BreakerTripped] and one log record, and [Connections.KeepFresh] rests for Pause.
// Then counting begins anew. If the breaker trips again within Pause of that, it is
// the same trouble: there is another pause and no other alarm.
//
// Calls of users go on meanwhile, and no other user is marked: one whose refresh
// token is refused gets the platform's answer, an [*api.Error], and it is tried
// again minutes later. The platform itself may be unwell. Where scopes were really
// added to the application, put them into the Scopes of [oauth.Config]: then every
// user who has to authorize again is known without asking. Every process has its
// own breaker.
type BreakerPolicy struct {
	// Users is the number of refused users; 0 means [DefaultBreakerUsers].
	Users int

	// Window is the time to count in; 0 means [DefaultBreakerWindow].
	Window time.Duration

	// Pause is for how long to stop; 0 means [DefaultBreakerPause].
	Pause time.Duration
}

func (p BreakerPolicy) withDefaults() BreakerPolicy {
	p.Users = cmp.Or(p.Users, DefaultBreakerUsers)
	p.Window = cmp.Or(p.Window, DefaultBreakerWindow)
	p.Pause = cmp.Or(p.Pause, DefaultBreakerPause)
	return p
}

// breaker counts refused and refreshed users in a sliding window. Its user locks.
type breaker struct {
	policy BreakerPolicy

	// The window slides by halves: what happened in this half and in the one
	// before counts.
	current, previous windowHalf

	until   time.Time // end of the pause
	episode time.Time // a trip before this is no new alarm
}

type windowHalf struct {
	began     time.Time
	refused   map[Key]struct{}
	refreshed int
}

// trip says what came of counting a refused user.
type trip struct {
	users   int  // how many there are
	open    bool // the breaker had tripped before, and nothing was counted
	tripped bool // by this user
	alarm   bool // for the first time in this trouble
}

func (b *breaker) recordRefusal(key Key) trip {
	now := time.Now()
	b.slide(now)
	if now.Before(b.until) {
		return trip{open: true}
	}
	if b.current.refused == nil {
		b.current.refused = map[Key]struct{}{}
	}
	b.current.refused[key] = struct{}{}
	users := len(b.current.refused)
	for earlier := range b.previous.refused {
		if _, again := b.current.refused[earlier]; !again {
			users++
		}
	}
	if users < b.policy.Users || users < b.current.refreshed+b.previous.refreshed {
		return trip{users: users}
	}
	alarm := !now.Before(b.episode)
	b.until = now.Add(b.policy.Pause)
	b.episode = b.until.Add(b.policy.Pause)
	b.current, b.previous = windowHalf{}, windowHalf{}
	return trip{users: users, tripped: true, alarm: alarm}
}

func (b *breaker) recordSuccess() {
	b.slide(time.Now())
	b.current.refreshed++
}

func (b *breaker) slide(now time.Time) {
	half := b.policy.Window / 2
	switch age := now.Sub(b.current.began); {
	case age >= 2*half:
		b.current, b.previous = windowHalf{began: now}, windowHalf{}
	case age >= half:
		b.current, b.previous = windowHalf{began: now}, b.current
	}
}
