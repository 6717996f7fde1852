package control

import (
	"maps"
	"slices"
	"sync"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

// simulation is the one simulation that callers can start.
type simulation struct {
	mu      sync.Mutex
	running *dispensarytest.Simulator
}

// simulated is what came of a simulation so far.
type simulated struct {
	Total   int
	Events  []counted
	Elapsed string
	Failure string // why it stopped by itself
}

// counted is how many events of a type there were.
type counted struct {
	Type  string
	Count int
}

func simulationOperations() []Operation {
	return []Operation{
		act("simulation.start", "POST", "/simulation", "Lets the platform's people act at a rate: so many events per second of the platform's clock.",
			"simulator, err := fake.Simulate(dispensarytest.SimulatorOptions{Rate: 10})", startSimulation),
		read("simulation.get", "/simulation", "", "What came of the simulation so far.",
			"report := simulator.Report()",
			func(c *call) (simulated, error) { return c.api.simulation.report(false) }),
		do("simulation.stop", "DELETE", "/simulation", "Ends the simulation, and says what came of it.",
			"simulator.Stop()",
			func(c *call) (simulated, error) { return c.api.simulation.report(true) }),
	}
}

func startSimulation(c *call, in dispensarytest.SimulatorOptions) (simulated, error) {
	s := &c.api.simulation
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return simulated{}, &problem{status: 409, message: "a simulation is running; end it first"}
	}
	started, err := c.fake.Simulate(in)
	if err != nil {
		return simulated{}, err
	}
	s.running = started
	return summary(started.Report()), nil
}

// report says what came of the simulation; the end of it is the last report.
func (s *simulation) report(end bool) (simulated, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return simulated{}, &problem{status: 404, message: "there is no simulation"}
	}
	reporting := s.running
	if end {
		reporting.Stop()
		s.running = nil
	}
	return summary(reporting.Report()), nil
}

func summary(r dispensarytest.SimulatorReport) simulated {
	out := simulated{Total: r.Total, Elapsed: r.Elapsed.String()}
	if r.Err != nil {
		out.Failure = plain(r.Err)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Events)) {
		out.Events = append(out.Events, counted{Type: kind, Count: r.Events[kind]})
	}
	return out
}
