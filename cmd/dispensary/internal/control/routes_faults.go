package control

import "github.com/dispensary-go/dispensary/dispensarytest"

// faultState is a fault that was set, and how it has done.
type faultState struct {
	ID     string
	Fault  dispensarytest.Fault
	Fired  int
	Active bool
}

func faultOperations() []Operation {
	return []Operation{
		list("faults.list", "/faults", "faults", "The faults that are set, and how often each has fired.",
			func(c *call) []faultState {
				var rows []faultState
				for _, h := range c.fake.Faults() {
					rows = append(rows, faultOf(h))
				}
				return rows
			}),
		act("faults.set", "POST", "/faults", "Lets something go wrong from the next request or delivery on.",
			func(c *call, in dispensarytest.Fault) (faultState, error) {
				if err := in.Validate(); err != nil {
					return faultState{}, err
				}
				return faultOf(c.fake.Fault(in)), nil
			}),
		do("faults.clear", "DELETE", "/faults", "Removes every fault.",
			func(c *call) (nothing, error) { c.fake.ClearFaults(); return nothing{}, nil }),
		do("faults.remove", "DELETE", "/faults/{fault_id}", "Removes one fault.",
			func(c *call) (faultState, error) {
				for _, h := range c.fake.Faults() {
					if h.ID() == c.path("fault_id") {
						h.Remove()
						return faultOf(h), nil
					}
				}
				return faultState{}, &problem{status: 404, message: "no fault has the id " + c.path("fault_id")}
			}),
	}
}

func faultOf(h *dispensarytest.FaultHandle) faultState {
	return faultState{ID: h.ID(), Fault: h.Fault(), Fired: h.Fired(), Active: h.Active()}
}

// silenceState is a point that the dispensary's API leaves open, and how the
// platform reads it now.
type silenceState struct {
	Name       string
	Section    string
	Why        string
	Operations []string
	Reading    string
	Readings   []dispensarytest.Reading
}

type readingNamed struct{ Reading string }

func silenceOperations() []Operation {
	return []Operation{
		list("silences.list", "/silences", "silences", "The points that the API leaves open, how the platform reads each, and how it could.", listSilences),
		act("silences.set", "PUT", "/silences/{silence}", "Changes how the platform reads a point that the API leaves open.",
			func(c *call, in readingNamed) (silenceState, error) {
				if err := c.fake.SetReading(c.path("silence"), in.Reading); err != nil {
					return silenceState{}, err
				}
				for _, s := range listSilences(c) {
					if s.Name == c.path("silence") {
						return s, nil
					}
				}
				return silenceState{}, nil // not reached: it has just been set
			}),
	}
}

func listSilences(c *call) []silenceState {
	var rows []silenceState
	readings := c.fake.Readings()
	for _, s := range dispensarytest.Silences() {
		rows = append(rows, silenceState{Name: s.Name, Section: s.Section, Why: s.Why, Operations: s.Operations, Reading: readings[s.Name], Readings: s.Readings})
	}
	return rows
}
