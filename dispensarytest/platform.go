package dispensarytest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
)

// Platform is the second actor: the people who use the platform itself.
// Patients register and order, practitioners write plans, clinics give and take
// access, the catalog changes. What they do makes events, as on the real
// platform; what the integrator does through the API never does.
//
// Every action returns its event, so that a test can wait for it:
//
//	order, event, err := fake.Platform().PlaceOrder(patient.ID, dispensarytest.NewOrder{})
//	err = fake.WaitDelivered(ctx, event.ID)
//
// Actions fail with an [*ActionError] and change nothing then. The events of an
// action that makes none have no ID.
type Platform struct{ srv *Server }

// Platform returns the platform's own users.
func (s *Server) Platform() *Platform { return &Platform{srv: s} }

// Reasons an action fails for; see [ActionError].
var (
	// ErrNotFound: nothing has the id that was named.
	ErrNotFound = errors.New("not found")

	// ErrInvalid: a value is missing, taken or of the wrong form.
	ErrInvalid = errors.New("invalid")

	// ErrState: the object's state does not allow the action.
	ErrState = errors.New("wrong state")
)

// ActionError is why an action of the platform's users failed.
type ActionError struct {
	Action string // the method: "PlaceOrder"
	Kind   error  // ErrNotFound, ErrInvalid or ErrState
	Detail string
}

// Error says which action failed and why.
func (e *ActionError) Error() string {
	return fmt.Sprintf("dispensarytest: %s: %s: %s", e.Action, e.Kind, e.Detail)
}

// Unwrap makes errors.Is work with the kind.
func (e *ActionError) Unwrap() error { return e.Kind }

func unknown(action, kind, id string) error {
	return &ActionError{Action: action, Kind: ErrNotFound, Detail: fmt.Sprintf("no %s has the id %q", kind, id)}
}

func refused(action string, kind error, format string, args ...any) error {
	return &ActionError{Action: action, Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// forgetEvents drops what is not kept any more.
func (s *Server) forgetEvents() {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := s.world.forgetEvents(s.clock.Now(), s.set.eventLimit)
	s.sender.mu.Lock()
	defer s.sender.mu.Unlock()
	s.sender.forget(s.clock.Now(), gone)
}

// act runs an action under the world's lock.
func (p *Platform) act(run func(w *world) error) error {
	defer p.srv.changes.Notify()
	p.srv.mu.Lock()
	defer p.srv.mu.Unlock()
	return run(p.srv.world)
}

// all copies a table.
func all[T any](p *Platform, of func(*world) *table.Table[T]) []T {
	p.srv.mu.RLock()
	defer p.srv.mu.RUnlock()
	var rows []T
	for row := range of(p.srv.world).All() {
		rows = append(rows, detached(*row))
	}
	return rows
}

// find copies a row.
func find[T any](p *Platform, of func(*world) *table.Table[T], id string) (T, bool) {
	p.srv.mu.RLock()
	defer p.srv.mu.RUnlock()
	row, known := of(p.srv.world).Get(id)
	if !known {
		return *new(T), false
	}
	return detached(*row), true
}

// detached copies what a row points to, so that callers cannot change the
// platform, or the world it shares with others, through what they were given.
func detached[T any](row T) T {
	if d, ok := any(&row).(interface{ detach() }); ok {
		d.detach()
	}
	return row
}

func (e *Event) detach() { e.Data = bytes.Clone(e.Data) }

func (o *Order) detach() { o.PlanIDs, o.Lines = slices.Clone(o.PlanIDs), slices.Clone(o.Lines) }

func (b *Brand) detach() { b.ClinicIDs = slices.Clone(b.ClinicIDs) }

func (p *Plan) detach() { p.Recommendations = cloneRecommendations(p.Recommendations) }

func (p *Product) detach() {
	for _, ids := range []*[]string{&p.VariantIDs, &p.AllergenIDs, &p.IngredientIDs, &p.CertificationIDs, &p.CategoryIDs} {
		*ids = slices.Clone(*ids)
	}
}

func cloneRecommendations(from []Recommendation) []Recommendation {
	lines := slices.Clone(from)
	for i := range lines {
		if lines[i].Dosage != nil {
			lines[i].Dosage = new(*lines[i].Dosage)
		}
	}
	return lines
}

// Brands returns all brands.
func (p *Platform) Brands() []Brand {
	return all(p, func(w *world) *table.Table[Brand] { return &w.brands })
}

// Clinics returns all clinics.
func (p *Platform) Clinics() []Clinic {
	return all(p, func(w *world) *table.Table[Clinic] { return &w.clinics })
}

// Patients returns all patients, in the order they were created.
func (p *Platform) Patients() []Patient {
	return all(p, func(w *world) *table.Table[Patient] { return &w.patients })
}

// Practitioners returns all practitioners.
func (p *Platform) Practitioners() []Practitioner {
	return all(p, func(w *world) *table.Table[Practitioner] { return &w.practitioners })
}

// Products returns all products, in the catalog's order.
func (p *Platform) Products() []Product {
	return all(p, func(w *world) *table.Table[Product] { return &w.products })
}

// Orders returns all orders, in the order they were placed.
func (p *Platform) Orders() []Order {
	return all(p, func(w *world) *table.Table[Order] { return &w.orders })
}

// Plans returns all treatment plans, in the order they were created.
func (p *Platform) Plans() []Plan {
	return all(p, func(w *world) *table.Table[Plan] { return &w.plans })
}

// Events returns the events that are kept, the oldest first: those of the last 30
// days, and not more than [WithEventLimit] says.
func (p *Platform) Events() []Event {
	p.srv.forgetEvents()
	return all(p, func(w *world) *table.Table[Event] { return &w.events })
}

// Order returns an order by id.
func (p *Platform) Order(id string) (Order, bool) {
	return find(p, func(w *world) *table.Table[Order] { return &w.orders }, id)
}

// Patient returns a patient by id.
func (p *Platform) Patient(id string) (Patient, bool) {
	return find(p, func(w *world) *table.Table[Patient] { return &w.patients }, id)
}

// Plan returns a treatment plan by id.
func (p *Platform) Plan(id string) (Plan, bool) {
	return find(p, func(w *world) *table.Table[Plan] { return &w.plans }, id)
}

// Product returns a product by id.
func (p *Platform) Product(id string) (Product, bool) {
	return find(p, func(w *world) *table.Table[Product] { return &w.products }, id)
}

// Variant returns a variant by id.
func (p *Platform) Variant(id string) (Variant, bool) {
	return find(p, func(w *world) *table.Table[Variant] { return &w.variants }, id)
}

// Cart returns what a patient is about to order: an in-office checkout fills it.
func (p *Platform) Cart(patientID string) []Line {
	c, _ := find(p, func(w *world) *table.Table[cart] { return &w.carts }, patientID)
	return slices.Clone(c.lines)
}
