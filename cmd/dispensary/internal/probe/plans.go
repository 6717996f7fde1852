package probe

// planPoints returns the points that treatment plans of the first patient show.
func planPoints() []point {
	return []point{
		{"draft-invitation", []string{"none", "present"}, observeDraftInvitation},
		{"checkout-state", []string{"active", "not-canceled"}, observeCheckoutState},
		{"draft-update", []string{"stays-draft", "activates"}, observeDraftUpdate},
		{"draft-cancellation", []string{"rejected", "allowed"}, observeDraftCancellation},
		{"wrong-state-status", []string{"422", "409"}, observeWrongState},
		{"canceled-plan-update", []string{"rejected", "allowed"}, observeCanceledPlanUpdate},
		{"link-practitioner", []string{"token", "required"}, observeLinkPractitioner},
		{"incomplete-plan", []string{"rejected", "activated"}, observeIncompletePlan},
		{"unsorted-lists", []string{"oldest-first", "newest-first"}, observeUnsortedLists},
	}
}

const draft, active = "draft", "active"

// newPlan creates a plan for the first patient. lack is the finding if that fails.
func (s *session) newPlan(state string) (id string, a platformResponse, lack *Finding) {
	patient, lack := s.patientID()
	if lack != nil {
		return "", a, lack
	}
	practitioner, lack := s.practitionerID()
	if lack != nil {
		return "", a, lack
	}
	lines, lack := s.recommendations()
	if lack != nil {
		return "", a, lack
	}
	a = s.post("/clinic/patients/"+patient+"/treatment_plans", object{
		"practitioner_id": practitioner, "state": state, "recommendations": lines, "metadata": object{"id": s.marker},
	})
	id = a.text("treatment_plan", "id")
	s.noteCreated("treatment_plan", id)
	if id != "" {
		s.plans = append(s.plans, id)
	}
	id, lack = lacking(a, id, "could not create a treatment plan")
	return id, a, lack
}

// practitionerID returns the first practitioner of the clinic.
func (s *session) practitionerID() (string, *Finding) {
	a := s.list("/clinic/practitioners", "1")
	var id string
	for _, row := range a.rows("practitioners") {
		id = textAt(row, "id")
	}
	return lacking(a, id, "found no practitioner")
}

// recommendations returns one line with the primary variant of the first product.
func (s *session) recommendations() ([]object, *Finding) {
	a := s.list("/catalog/products", "1")
	var id string
	for _, row := range a.rows("products") {
		id = textAt(row, "primary_variant", "id")
	}
	id, lack := lacking(a, id, "found no product")
	return []object{{"variant_id": id, "units_to_purchase": 1}}, lack
}

func observeDraftInvitation(s *session) Finding {
	_, a, lack := s.newPlan(draft)
	if lack != nil {
		return *lack
	}
	if a.text("treatment_plan", "invitation_url") != "" {
		return seen("present", a)
	}
	return seen("none", a)
}

func observeCheckoutState(s *session) Finding {
	id, _, lack := s.newPlan(draft)
	if lack != nil {
		return *lack
	}
	return decide(s.post(planPath(id, "in_office_checkout"), object{}), "not-canceled", "active")
}

func planPath(id, action string) string { return "/clinic/treatment_plans/" + id + "/" + action }

func observeDraftUpdate(s *session) Finding {
	id, _, lack := s.newPlan(draft)
	if lack != nil {
		return *lack
	}
	a := s.updatePlan(id)
	switch state := a.text("treatment_plan", "state"); {
	case !a.ok():
		return unexpected(a)
	case state == draft:
		return seen("stays-draft", a)
	case state == active:
		return seen("activates", a)
	default:
		return ambiguous("an updated draft is neither a draft nor active", a)
	}
}

func (s *session) updatePlan(id string) platformResponse {
	lines, _ := s.recommendations() // cannot fail: the plan was created with them
	return s.patch("/clinic/treatment_plans/"+id, object{"recommendations": lines})
}

func observeDraftCancellation(s *session) Finding {
	id, _, lack := s.newPlan(draft)
	if lack != nil {
		return *lack
	}
	return decide(s.patch(planPath(id, "cancel"), object{}), "allowed", "rejected")
}

// observeWrongState activates an active plan.
func observeWrongState(s *session) Finding {
	id, _, lack := s.newPlan(active)
	if lack != nil {
		return *lack
	}
	s.activePlan = id
	return statusOf(s.patch(planPath(id, "activate"), object{}))
}

// observeCanceledPlanUpdate cancels the plan of wrongState and then updates it.
func observeCanceledPlanUpdate(s *session) Finding {
	if s.activePlan == "" {
		return ambiguous("there is no active plan to cancel")
	}
	canceled := s.patch(planPath(s.activePlan, "cancel"), object{})
	if !canceled.ok() {
		return unexpected(canceled)
	}
	return decide(s.updatePlan(s.activePlan), "allowed", "rejected")
}

// newLink creates a draft without a patient.
func (s *session) newLink(plan object) platformResponse {
	a := s.post("/clinic/dynamic_links/treatment_plans", object{"treatment_plan": plan})
	s.noteCreated("treatment_plan", a.text("dynamic_links", "treatment_plan", "id"))
	return a
}

func observeLinkPractitioner(s *session) Finding {
	a := s.newLink(object{})
	if owner := s.config.Token.ResourceOwner.Type; a.rejected() && owner != "Practitioner" {
		return ambiguous("the request was rejected, but the token may not belong to a practitioner", a)
	}
	return decide(a, "token", "required")
}

func observeIncompletePlan(s *session) Finding {
	practitioner, lack := s.practitionerID()
	if lack != nil {
		return *lack
	}
	link := s.newLink(object{"practitioner_id": practitioner})
	id, lack := lacking(link, link.text("dynamic_links", "treatment_plan", "id"), "could not create a draft without a patient")
	if lack != nil {
		return *lack
	}
	return decide(s.patch(planPath(id, "activate"), object{}), "activated", "rejected")
}

// observeUnsortedLists compares two lists with the order of creation.
func observeUnsortedLists(s *session) Finding {
	patient, lack := s.patientID()
	if lack != nil {
		return *lack
	}
	other := s.secondPatient()
	otherID, lack := lacking(other, other.text("patient", "id"), "could not create a second patient")
	if lack != nil {
		return *lack
	}
	patients := s.get("/clinic/search/patients", "query", s.marker, "page[size]", "100")
	plans := s.get("/clinic/patients/"+patient+"/treatment_plans", "page[size]", "100")
	if !patients.ok() || !plans.ok() || len(s.plans) < 2 {
		return ambiguous("could not read the lists, or not create enough records", patients, plans)
	}
	first, second := order(patients.rows("patients"), patient, otherID), order(plans.rows("treatment_plans"), s.plans[0], s.plans[len(s.plans)-1])
	if first == "" || first != second {
		return ambiguous("two lists have different orders, or lack the records", patients, plans)
	}
	return seen(first, patients, plans)
}

// order returns the order of a list, given its oldest and newest record. It returns "" if one
// of them is missing.
func order(rows []any, oldest, newest string) string {
	old, young := -1, -1
	for i, row := range rows {
		switch textAt(row, "id") {
		case oldest:
			old = i
		case newest:
			young = i
		}
	}
	switch {
	case old < 0 || young < 0:
		return ""
	case old < young:
		return "oldest-first"
	}
	return "newest-first"
}

// cancelPlans cancels the created plans if the platform allows it, so that no patient can act
// on one.
func (s *session) cancelPlans() {
	for _, record := range s.created {
		if record.Kind == "treatment_plan" && record.ID != s.activePlan {
			s.patch(planPath(record.ID, "cancel"), object{})
		}
	}
}
