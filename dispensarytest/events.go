package dispensarytest

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
)

// retention is how long events and deliveries can be read. API section:
// "Limits".
const retention = 30 * 24 * time.Hour

// Event types. API section: "Event types".
const (
	ClinicKeyActivated          = "clinic_key.activated"
	ClinicKeyRevoked            = "clinic_key.revoked"
	OrderPlaced                 = "order.placed"
	PatientCreated              = "patient.created"
	PatientUpdated              = "patient.updated"
	ProductCreated              = "product.created"
	ProductDescriptionUpdated   = "product.description.updated"
	ProductUpdated              = "product.updated"
	TreatmentPlanCreated        = "treatment_plan.created"
	TreatmentPlanUpdated        = "treatment_plan.updated"
	TreatmentPlanRecommendation = "treatment_plan.recommendation.updated"
)

// EventTypes returns all event types of the API, sorted.
func EventTypes() []string {
	return []string{
		ClinicKeyActivated, ClinicKeyRevoked, OrderPlaced, PatientCreated, PatientUpdated,
		ProductCreated, ProductDescriptionUpdated, ProductUpdated,
		TreatmentPlanCreated, TreatmentPlanRecommendation, TreatmentPlanUpdated,
	}
}

// Event is something that happened on the platform, other than through the API.
// API section: "Event".
type Event struct {
	ID        string
	Type      string
	CreatedAt time.Time       // see [SilenceEventTimes]
	ClinicID  string          // empty on product events
	ObjectID  string          // the plan, patient, order, product or integration it is about
	Data      json.RawMessage // as it stood when the event happened
}

// eventView is an event in answers and webhooks.
type eventView struct {
	ID            string          `json:"id"`
	Type          string          `json:"type"`
	CreatedAt     string          `json:"created_at"`
	ClinicID      string          `json:"clinic_id,omitempty"`
	Data          json.RawMessage `json:"data,omitempty"`
	IntegrationID string          `json:"integration_id,omitempty"` // in webhooks
}

func viewEventItem(e *Event) eventView {
	return eventView{ID: e.ID, Type: e.Type, CreatedAt: stamp(e.CreatedAt), ClinicID: e.ClinicID}
}

func viewEvent(e *Event) eventView {
	view := viewEventItem(e)
	view.Data = e.Data
	return view
}

// eventScope is what a token needs to read an event, and to have it sent: an
// assumption. Clinic key events are sent without one.
func eventScope(kind string) string {
	switch {
	case strings.HasPrefix(kind, "patient."):
		return scopePatientsRead
	case strings.HasPrefix(kind, "treatment_plan."):
		return scopePlanHistory
	case strings.HasPrefix(kind, "order."):
		return scopeOrderHistory
	case strings.HasPrefix(kind, "product."):
		return scopeCatalog
	default:
		return scopeClinicRead
	}
}

// keeps reports that an event can still be read, by this clinic.
func (c *call) keeps(e *Event) bool {
	return (e.ClinicID == "" || e.ClinicID == c.clinicID()) && c.now.Sub(e.CreatedAt) <= retention
}

func getEvent(c *call, w *world) (reply, error) {
	e, known := w.events.Get(c.arg())
	if !known || !c.keeps(e) {
		return reply{}, notFound()
	}
	if err := c.require(eventScope(e.Type)); err != nil {
		return reply{}, err
	}
	return ok(viewEvent(e)), nil
}

// listEvents lists one group of events.
func listEvents(group string) handler {
	types := slices.DeleteFunc(EventTypes(), func(t string) bool { return eventGroup(t) != group })
	return func(c *call, w *world) (reply, error) {
		day, err := c.params.days("created_at")
		if err != nil {
			return reply{}, err
		}
		kind, err := c.params.oneOf("event_type", types...)
		if err != nil {
			return reply{}, err
		}
		field, descending, err := c.params.order("event_type", "created_at")
		if err != nil {
			return reply{}, err
		}
		whose := c.clinicID()
		if group == "product" {
			whose = ""
		}
		kept := func(e *Event) int {
			if c.now.Sub(e.CreatedAt) > retention {
				return -1
			}
			return day.place(e.CreatedAt)
		}
		part := w.events.SpanWithin(eventsByGroup, kept, whose, group)
		switch {
		case kind != "":
			part = w.events.SpanWithin(eventsByType, kept, whose, kind)
		case field == "event_type":
			return listOf(c, w.eventsByType(types, kept, whose, descending), viewEventItem), nil
		}
		if field == "event_type" || field == "" && !descending {
			return listOf(c, part.Created(), viewEventItem), nil
		}
		return listOf(c, part.Sorted(descending), viewEventItem), nil
	}
}

// eventsByType lists events of one type after those of another, each in the order of
// creation.
func (w *world) eventsByType(types []string, kept func(*Event) int, clinic string, descending bool) (rows table.List[Event]) {
	rows = table.Rows[Event](nil)
	for _, kind := range types { // they are sorted
		one := w.events.SpanWithin(eventsByType, kept, clinic, kind).Created()
		if descending {
			rows = rows.After(one)
			continue
		}
		rows = one.After(rows)
	}
	return rows
}

// emit records an event and hands it to the webhook sender, once for each
// enabled integration. The caller holds the world's lock for writing.
func (s *Server) emit(kind, clinicID, objectID string, data any) Event {
	return s.emitAt(s.eventTime(objectID), kind, clinicID, objectID, data)
}

// emitAt is emit for an object that has the event's time itself.
func (s *Server) emitAt(at time.Time, kind, clinicID, objectID string, data any) Event {
	w, now := s.world, s.clock.Now()
	e := Event{ID: w.newID("event"), Type: kind, CreatedAt: at, ClinicID: clinicID, ObjectID: objectID, Data: encodeOne(data)}
	w.events.Put(e.ID, &e)
	gone := w.forgetEvents(now, s.set.eventLimit)
	concerned := w.integrations.Everything() // a product concerns all clinics
	if clinicID != "" {
		concerned = w.integrations.Span(integrationsByClinic, clinicID).Created()
	}
	enabled := table.Keep(concerned.All(), (*integration).enabled)
	covered := slices.DeleteFunc(slices.Clone(enabled), func(i *integration) bool { return !s.covered(e, i.clinicID) })
	var refusal string
	if len(enabled) > 0 && len(covered) == 0 {
		refusal = "no live token of the clinic has the scope " + eventScope(e.Type)
	}
	s.sender.accept(e, now, covered, refusal, gone)
	return detached(e)
}

// eventTime is when an event of an object happens: now, or a millisecond after the
// object's last one where receivers could not tell the two apart. The caller holds the
// world's lock.
func (s *Server) eventTime(objectID string) time.Time {
	now := s.clock.Now()
	before := s.world.events.Span(eventsByObject, objectID).Ascending()
	if s.reads().eventsTie || before.N == 0 {
		return now
	}
	last := before.Part(before.N-1, before.N)[0].CreatedAt
	if now.Truncate(time.Millisecond).After(last) { // the precision of timestamps
		return now
	}
	return last.Add(time.Millisecond)
}

// forgetEvents drops the events that are not kept any more, and returns their ids.
func (w *world) forgetEvents(now time.Time, limit int) (ids []string) {
	for w.events.Len() > 0 {
		oldest := w.events.At(0)
		if now.Sub(oldest.CreatedAt) <= retention && w.events.Len() <= limit {
			break
		}
		w.events.Remove(oldest.ID)
		ids = append(ids, oldest.ID)
	}
	return ids
}

// unwrapped is event data that has no wrapper, an assumption, but in a reading.
func (s *Server) unwrapped(kind string, data any) any {
	if s.reads().wrapAll {
		return map[string]any{kind: data}
	}
	return data
}

// covered reports that the delivery conditions let an event be sent to a clinic's
// integrations. The conditions are an assumption.
func (s *Server) covered(e Event, clinicID string) bool {
	return s.reads().unconditional || strings.HasPrefix(e.Type, "clinic_key.") || s.tokens.covers(clinicID, eventScope(e.Type))
}

// activate makes an integration active, once.
func (s *Server) activate(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, _ := s.world.integrations.Get(id)
	if !old.activated.IsZero() || old.revoked {
		return
	}
	changed := *old
	changed.activated = s.clock.Now()
	s.world.integrations.Put(id, &changed)
	s.emit(ClinicKeyActivated, old.clinicID, old.id, viewClinicKey(&changed))
}

// clinicKeyView is the data of clinic key events. The API does not show it; that
// it names clinic and integration, and not the key, is an assumption.
type clinicKeyView struct {
	ClinicKey struct {
		ClinicID      string `json:"clinic_id"`
		IntegrationID string `json:"integration_id"`
	} `json:"clinic_key"`
}

func viewClinicKey(i *integration) clinicKeyView {
	var view clinicKeyView
	view.ClinicKey.ClinicID, view.ClinicKey.IntegrationID = i.clinicID, i.id
	return view
}
