package tokens

import "time"

// The breaker of a process notices that the platform refuses one refresh token after another.
// A user who revokes the application is one. Many within minutes are not their own doing.
//
// It trips when, within breakerWindow, breakerUsers or more different users were answered
// invalid_grant and no fewer than were refreshed. It raises one [BreakerTripped] and one log
// record, and [Connections.KeepFresh] rests for breakerPause. Then counting begins anew. If it
// trips again within breakerPause of that, it is the same trouble: there is another pause and
// no other alarm.
//
// Meanwhile no other user is marked: a refused refresh token returns the platform's
// [*api.Error] and is tried again minutes later, because the platform itself may be unwell.
const (
	breakerUsers  = 10
	breakerWindow = 5 * time.Minute
	breakerPause  = 15 * time.Minute
)

// breaker counts refused and refreshed users in a sliding window. Its user locks.
type breaker struct {
	users         int
	window, pause time.Duration

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
	if users < b.users || users < b.current.refreshed+b.previous.refreshed {
		return trip{users: users}
	}
	alarm := !now.Before(b.episode)
	b.until = now.Add(b.pause)
	b.episode = b.until.Add(b.pause)
	b.current, b.previous = windowHalf{}, windowHalf{}
	return trip{users: users, tripped: true, alarm: alarm}
}

func (b *breaker) recordSuccess() {
	b.slide(time.Now())
	b.current.refreshed++
}

func (b *breaker) slide(now time.Time) {
	half := b.window / 2
	switch age := now.Sub(b.current.began); {
	case age >= 2*half:
		b.current, b.previous = windowHalf{began: now}, windowHalf{}
	case age >= half:
		b.current, b.previous = windowHalf{began: now}, b.current
	}
}
