package dispensarytest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// SimulatorOptions are how busy the platform's people are.
type SimulatorOptions struct {
	Rate float64 // events per second of the platform's clock, a million at most
	Seed uint64  // who does what; the same seed, the same day
}

// Simulator lets the platform's people act until it is stopped: they order, edit
// their details, register, write and edit plans, and change the catalog. Each
// action makes one event.
//
// The n-th of them is due at (n-½)/Rate seconds after the start: so many seconds
// hold Rate times as many events, and their deliveries, however long it goes on.
// Where the machine, or a receiver that is served one event at a time, does not keep
// up, people wait until what they did before is on its way, and make up for it as
// soon as they can; see [WithParallelDelivery].
type Simulator struct {
	srv   *Server
	rate  float64
	began time.Time
	dice  *rand.Rand

	mu      sync.Mutex
	stopped bool
	ended   time.Time
	events  map[string]int // by type
	total   int
	failed  error
}

// Simulate sets the platform's people to work. On a frozen clock they work while it
// is advanced. A platform that is closed stops them.
func (s *Server) Simulate(o SimulatorOptions) (*Simulator, error) {
	if o.Rate <= 0 || o.Rate > 1e6 {
		return nil, errors.New("dispensarytest: Simulate: Rate is above 0, and at most a million")
	}
	sim := &Simulator{
		srv: s, rate: o.Rate, began: s.clock.Now(),
		dice: rand.New(rand.NewPCG(o.Seed, 0x51)), events: make(map[string]int),
	}
	sim.mu.Lock()
	defer sim.mu.Unlock()
	sim.next()
	return sim, nil
}

// Stop ends the simulation. It does not wait for an action under way. Stopping
// twice is fine.
func (sim *Simulator) Stop() {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	if !sim.stopped {
		sim.stopped, sim.ended = true, sim.srv.clock.Now()
	}
}

// SimulatorReport is what came of a simulation.
type SimulatorReport struct {
	Events  map[string]int // by type
	Total   int
	Elapsed time.Duration // on the platform's clock
	Err     error         // why it stopped by itself
}

// Report is how far the simulation has come.
func (sim *Simulator) Report() SimulatorReport {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	r := SimulatorReport{Events: make(map[string]int), Total: sim.total, Err: sim.failed, Elapsed: sim.srv.clock.Now().Sub(sim.began)}
	if sim.stopped {
		r.Elapsed = sim.ended.Sub(sim.began)
	}
	for kind, n := range sim.events {
		r.Events[kind] = n
	}
	return r
}

// next schedules an action. Its time follows from its number, so that a late one
// does not make the others late; but one that is late already comes after what the
// earlier ones have to deliver. The caller holds mu.
func (sim *Simulator) next() {
	at := sim.began.Add(time.Duration((float64(sim.total) + 0.5) / sim.rate * float64(time.Second)))
	if now := sim.srv.clock.Now(); at.Before(now) {
		at = now
	}
	sim.srv.clock.Schedule(sim.srv.sender, at, sim.act)
}

func (sim *Simulator) act() {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	if sim.stopped || sim.srv.sender.Stopped() {
		return
	}
	e, err := sim.something()
	if err != nil {
		sim.stopped, sim.ended, sim.failed = true, sim.srv.clock.Now(), fmt.Errorf("dispensarytest: the simulation: %w", err)
		return
	}
	sim.total++
	sim.events[e.Type]++
	sim.next()
}

// something is what one of the platform's people does next.
func (sim *Simulator) something() (e model.Event, err error) {
	p := sim.srv
	patient := anyOf(sim, func(w *store.World) table.Table[*model.Patient] { return w.Patients })
	switch throw := sim.dice.IntN(100); {
	case throw < 45:
		_, e, err = p.Orders.Place(patient.ID, model.NewOrder{})
	case throw < 65:
		_, e, err = p.Patients.Edit(patient.ID, model.PatientChange{TextNotification: new(!patient.TextNotification)})
	case throw < 80:
		_, e, err = p.Plans.Create(patient.ID, model.NewPlan{PractitionerID: sim.practitionerOf(patient)})
	case throw < 85:
		_, e, err = p.Patients.Register(model.NewPatient{ClinicID: patient.ClinicID})
	case throw < 93:
		plan := anyOf(sim, func(w *store.World) table.Table[*model.Plan] { return w.Plans })
		if plan.State == model.StateCancelled || len(plan.Recommendations) == 0 {
			_, e, err = p.Orders.Place(patient.ID, model.NewOrder{})
			break
		}
		_, e, err = p.Plans.Update(plan.ID, model.PlanChange{PersonalMessage: new("See you soon.")})
	default:
		product := anyOf(sim, func(w *store.World) table.Table[*model.Product] { return w.Products })
		_, e, err = p.Products.Describe(product.ID, fmt.Sprintf("<p>Revision %d.</p>", sim.total))
	}
	return e, err
}

// anyOf picks a row.
func anyOf[T any](sim *Simulator, of func(*store.World) table.Table[*T]) T {
	held := sim.srv.store
	held.RLock()
	defer held.RUnlock()
	rows := of(held.World)
	if len(rows.Rows) == 0 {
		return *new(T)
	}
	return *table.At(rows, sim.dice.IntN(len(rows.Rows)))
}

func (sim *Simulator) practitionerOf(patient model.Patient) string {
	held := sim.srv.store
	held.RLock()
	defer held.RUnlock()
	there := held.World.PractitionersOf(patient.ClinicID)
	return there[sim.dice.IntN(len(there))].ID
}
