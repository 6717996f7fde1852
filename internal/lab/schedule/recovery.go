package schedule

import "time"

// OnRecovery adds a function that ends faults of the scenario. It is called before the recovery.
func (s *Scheduler) OnRecovery(heal func()) { s.heal = append(s.heal, heal) }

// SettledWhen adds a condition that the recovery waits for. It is a violation if the condition
// never holds.
func (s *Scheduler) SettledWhen(name string, holds func() bool) {
	s.settled = append(s.settled, condition{name, holds})
}

type condition struct {
	name  string
	holds func() bool
}

// Recovering returns the time since the start of the recovery, or 0 before it.
func (s *Scheduler) Recovering() time.Duration {
	if s.recovers.IsZero() {
		return 0
	}
	return time.Since(s.recovers) + 1
}

// Limits of the recovery.
const (
	recoverySteps = 4000
	recoveryTime  = 72 * time.Hour
)

// recover ends all faults and waits until the scenario is settled.
func (s *Scheduler) recover() {
	s.recovers = time.Now()
	s.mu.Lock()
	s.story = append(s.story, "   recovery")
	for _, c := range s.parked {
		c.until = time.Time{}
	}
	s.mu.Unlock()
	for _, heal := range s.heal {
		heal()
	}
	for _, m := range s.processes {
		if m.process.stalled = (time.Time{}); !m.process.Alive() {
			m.begin()
		}
	}
	end := time.Now().Add(recoveryTime)
	for n := 0; s.rest(); n++ {
		open := s.unsettled()
		if open == "" {
			break
		}
		if n == recoverySteps || time.Now().After(end) {
			s.Failf("not settled after the recovery: %s", open)
			return
		}
		s.apply(s.plainStep(), "   · ")
	}
	for _, check := range s.inTheEnd {
		if err := check(); err != nil {
			s.Failf("final check: %w", err)
		}
	}
}

func (s *Scheduler) unsettled() string {
	for _, c := range s.settled {
		if !c.holds() {
			return c.name
		}
	}
	return ""
}
