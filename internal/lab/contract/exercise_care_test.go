package contract_test

func draft(s *fixture) string     { return s.plan("draft") }
func active(s *fixture) string    { return s.plan("active") }
func cancelled(s *fixture) string { return s.cancelled() }

func activePlan(s *fixture) map[string]any { return s.newPlan("active") }

func planChange(s *fixture) map[string]any {
	body := s.newPlan(nil)
	delete(body, "practitioner_id")
	delete(body, "state")
	return body
}

// onPlan changes the request to another plan.
func onPlan(plan func(*fixture) string) func(*fixture, *request) {
	return func(s *fixture, r *request) { r.path = []string{plan(s)} }
}

var careExercises = map[string]exercise{
	"protocols.list": {request: at((*fixture).practitioner)},
	"protocols.get":  {request: firstOf("protocols.list", (*fixture).practitioner)},
	"templates.list": {request: at((*fixture).practitioner)},
	"templates.get":  {request: firstOf("templates.list", (*fixture).practitioner)},

	"treatment_plans.list":   {request: at((*fixture).patient)},
	"treatment_plans.get":    {request: at(active)},
	"treatment_plans.create": {request: having(activePlan, (*fixture).patient), status: 201},
	"treatment_plans.update": {
		request:  having(planChange, active),
		refusals: []refusal{{"canceled plan", 422, onPlan(cancelled)}},
	},
	"treatment_plans.cancel": {
		request: at(active),
		refusals: []refusal{
			{"draft", 422, onPlan(draft)},
			{"canceled plan", 422, onPlan(cancelled)},
		},
	},
	"treatment_plans.activate": {
		request: at(draft),
		refusals: []refusal{
			{"active plan", 422, onPlan(active)},
			{"canceled plan", 422, onPlan(cancelled)},
		},
	},
	"treatment_plans.in_office_checkout": {
		request: at(active), status: 201,
		refusals: []refusal{
			{"draft", 422, onPlan(draft)},
			{"canceled plan", 422, onPlan(cancelled)},
		},
	},
}

// newLink returns the body of a link to a draft for a known patient. The call then needs only the
// stated scope.
func newLink(s *fixture) map[string]any {
	return map[string]any{
		"treatment_plan": map[string]any{"practitioner_id": s.practitioner()},
		"patient":        map[string]any{"email": s.fake.Patients.All()[0].Email},
	}
}

var linkExercises = map[string]exercise{
	"dynamic_links.get": {
		request:  at(active),
		refusals: []refusal{{"canceled plan", 422, onPlan(cancelled)}},
	},
	"dynamic_links.new": {request: plainly},
	"dynamic_links.create": {
		request: having(newLink),
		refusals: []refusal{
			{"unknown practitioner", 422, field("treatment_plan", fixed(map[string]any{"practitioner_id": "nobody"}))},
			{"patient without e-mail address", 422, field("patient", fixed(map[string]any{"first_name": "Nora"}))},
			{"no treatment_plan", 400, func(_ *fixture, r *request) { r.body = map[string]any{} }},
			{"new patient without patients:write", 403, func(s *fixture, r *request) {
				r.token = s.tokenWith("clinic:write")
				field("patient", fixed(map[string]any{"email": "someone.new@example.org"}))(s, r)
			}},
		},
	},
}
