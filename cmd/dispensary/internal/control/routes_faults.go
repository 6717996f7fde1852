package control

import (
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// faultState is a fault with its number of uses.
type faultState struct {
	ID     string
	Fault  model.Fault
	Fired  int
	Active bool
}

func faultOperations() []Operation {
	return []Operation{
		list("faults.list", "/faults", "faults", "Lists the faults, with the number of times that each has fired.",
			func(c *call) []faultState {
				var rows []faultState
				for _, h := range c.fake.Faults() {
					rows = append(rows, faultOf(h))
				}
				return rows
			}),
		act("faults.set", "POST", "/faults", "Adds a fault: requests or deliveries fail from the next one on.",
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

// behaviorState is an open point of the dispensary's API with the variant in use.
type behaviorState struct {
	Name       string
	Section    string
	Why        string
	Operations []string
	Variant    string
	Variants   []variantState
}

// variantState is a variant of an open point.
type variantState struct {
	Name    string
	Meaning string
}

type variantNamed struct{ Variant string }

func behaviorOperations() []Operation {
	return []Operation{
		list("behaviors.list", "/behaviors", "behaviors", "Lists the open points of the API, with the variant in use and all variants.", listBehaviors),
		act("behaviors.set", "PUT", "/behaviors/{behavior}", "Changes the variant of an open point of the API.",
			func(c *call, in variantNamed) (behaviorState, error) {
				if err := c.fake.SetBehavior(behavior.Variant(c.path("behavior") + "=" + in.Variant)); err != nil {
					return behaviorState{}, err
				}
				for _, s := range listBehaviors(c) {
					if s.Name == c.path("behavior") {
						return s, nil
					}
				}
				return behaviorState{}, nil // unreachable: SetBehavior accepted the name
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
