package control

import (
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// faultState is a fault that was set, and how it has done.
type faultState struct {
	ID     string
	Fault  model.Fault
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
			func(c *call, in model.Fault) (faultState, error) {
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
					if h.ID == c.path("fault_id") {
						h.Remove()
						return faultOf(h), nil
					}
				}
				return faultState{}, &problem{status: 404, message: "no fault has the id " + c.path("fault_id")}
			}),
	}
}

func faultOf(h *dispensarytest.FaultHandle) faultState {
	return faultState{ID: h.ID, Fault: h.Fault, Fired: h.Fired(), Active: h.Active()}
}

// behaviorState is a point that the dispensary's API leaves open, and how the platform
// decides it now.
type behaviorState struct {
	Name       string
	Section    string
	Why        string
	Operations []string
	Variant    string
	Variants   []variantState
}

// variantState is one way to decide the point.
type variantState struct {
	Name    string
	Meaning string
}

type variantNamed struct{ Variant string }

func behaviorOperations() []Operation {
	return []Operation{
		list("behaviors.list", "/behaviors", "behaviors", "The points that the API leaves open, how the platform decides each, and how it could.", listBehaviors),
		act("behaviors.set", "PUT", "/behaviors/{behavior}", "Changes how the platform decides a point that the API leaves open.",
			func(c *call, in variantNamed) (behaviorState, error) {
				if err := c.fake.SetBehavior(behavior.Variant(c.path("behavior") + "=" + in.Variant)); err != nil {
					return behaviorState{}, err
				}
				for _, s := range listBehaviors(c) {
					if s.Name == c.path("behavior") {
						return s, nil
					}
				}
				return behaviorState{}, nil // not reached: it has just been set
			}),
	}
}

func listBehaviors(c *call) []behaviorState {
	var rows []behaviorState
	inForce := c.fake.Behaviors()
	for i, choice := range behavior.Choices() { // both are sorted by name
		row := behaviorState{Name: choice.Name, Section: choice.Section, Why: choice.Why, Operations: choice.Operations, Variant: inForce[i].Name()}
		for _, v := range choice.Variants {
			row.Variants = append(row.Variants, variantState{Name: v.Name(), Meaning: v.Meaning()})
		}
		rows = append(rows, row)
	}
	return rows
}
