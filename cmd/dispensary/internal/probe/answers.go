package probe

import (
	"errors"
	"net/http"
	"strings"
	"time"
)

// recordPoints show in answers to a user's token, on the records of the run and on the
// catalog. The first one finds out whether the clinic key is needed.
func recordPoints() []point {
	return []point{
		{"clinic-key-header", []string{"optional", "clinic-endpoint", "always"}, (*session).clinicKeyHeader},
		{"integration-activation", []string{"first-key", "from-the-start"}, (*session).integrationActivation},
		{"success-status", []string{"201-for-created", "always-200"}, (*session).successStatus},
		{"error-shape", []string{"by-status", "text", "status-and-text", "coded-list"}, (*session).errorShape},
		{"validation-status", []string{"422", "400"}, func(s *session) Finding { return statusOf(s.invalid()) }},
		{"missing-scope-status", []string{"403", "404"}, (*session).missingScope},
		{"plain-http-status", []string{"403", "400"}, (*session).plainHTTP},
		{"empty-values", []string{"null", "absent"}, (*session).emptyValues},
		{"unknown-fields", []string{"ignored", "rejected"}, (*session).unknownFields},
		{"unknown-parameters", []string{"ignored", "rejected"}, func(s *session) Finding {
			return decide(s.get("/clinic/patients", "dispensary_probe", "1"), "ignored", "rejected")
		}},
		{"metadata-type", []string{"optional", "required"}, func(s *session) Finding {
			return decide(s.get("/clinic/metadata", "id", s.marker), "optional", "required")
		}},
		notObservable("rate-limit", "it takes more than 5,000 requests in 5 minutes", "off", "5000-in-5m"),
	}
}

// clinicKeyHeader has to be looked at first: from then on, the key is sent.
func (s *session) clinicKeyHeader() Finding {
	s.withoutKey = s.get("/clinic")
	patients := s.get("/clinic/patients", "page[size]", "1")
	s.key = s.config.ClinicKey.Reveal()
	if s.withoutKey.ok() && patients.ok() {
		return seen("optional", s.withoutKey, patients)
	}
	if s.key == "" {
		return ambiguous("a request was refused, and there is no clinic key to send along", s.withoutKey, patients)
	}
	withKey, again := s.get("/clinic"), s.get("/clinic/patients", "page[size]", "1")
	switch {
	case !withKey.ok() || !again.ok():
		return ambiguous("a request is refused with the clinic key, too", s.withoutKey, patients, withKey, again)
	case patients.ok():
		return seen("clinic-endpoint", s.withoutKey, patients, withKey)
	case s.withoutKey.ok():
		return ambiguous("GET /clinic does without the clinic key, and others do not", s.withoutKey, patients, again)
	}
	return seen("always", s.withoutKey, patients, withKey, again)
}

// integrationActivation shows only where the key was never sent before, or for 30 days
// after that: its first use makes an event of the same time.
func (s *session) integrationActivation() Finding {
	activated, there := s.withoutKey.at("clinic", "integration_activated_at")
	if s.withoutKey.ok() && activated == nil {
		_, isClinic := s.withoutKey.at("clinic", "id")
		if !there && !isClinic {
			return ambiguous("the answer holds no clinic", s.withoutKey)
		}
		return seen("first-key", s.withoutKey)
	}
	now := s.get("/clinic")
	events := s.get("/events/clinic_keys", "event_type", "clinic_key.activated", "page[size]", "100")
	if !now.ok() || !events.ok() {
		return ambiguous("the clinic or its events cannot be read", now, events)
	}
	since, err := time.Parse(time.RFC3339, now.text("clinic", "integration_activated_at"))
	for _, event := range events.rows("events") {
		at, wrong := time.Parse(time.RFC3339, textAt(event, "created_at"))
		if err == nil && wrong == nil && at.Sub(since).Abs() <= time.Second {
			return seen("first-key", now, events)
		}
	}
	return hidden("the integration was active before, and no event of the last 30 days shows since when", now, events)
}

func (s *session) successStatus() Finding {
	a := s.firstPatient()
	switch a.status {
	case http.StatusCreated:
		return seen("201-for-created", a)
	case http.StatusOK:
		return seen("always-200", a)
	}
	return unexpected(a)
}

// invalid creates a patient who has nothing, which should be refused.
func (s *session) invalid() answer {
	a := s.post("/clinic/patients", object{})
	s.noteCreated("patient", a.text("patient", "id"))
	return a
}

func (s *session) errorShape() Finding {
	missing, invalid := s.get("/clinic/patients/"+s.marker), s.invalid()
	if !missing.refused() || !invalid.refused() {
		return ambiguous("an unknown id or an empty body is not refused as such", missing, invalid)
	}
	switch shapeOf(missing) + ", " + shapeOf(invalid) {
	case "status, list":
		return seen("by-status", missing, invalid)
	case "text, text":
		return seen("text", missing, invalid)
	case "status, status":
		return seen("status-and-text", missing, invalid)
	case "coded, coded":
		return seen("coded-list", missing, invalid)
	}
	return ambiguous("the bodies of two refusals have shapes that are not known together", missing, invalid)
}

func shapeOf(a answer) string {
	_, hasStatus := a.at("status")
	found, _ := a.at("error")
	switch found.(type) {
	case []any:
		return "list"
	case string:
		if hasStatus {
			return "status"
		}
		return "text"
	}
	for _, one := range a.rows("errors") {
		if textAt(one, "code") != "" {
			return "coded"
		}
	}
	return "none"
}

func (s *session) missingScope() Finding {
	if s.config.Narrow.IsZero() {
		return hidden("it takes a token without the scope patients:read, and --narrow-file names none")
	}
	return statusOf(s.getWith(s.config.Narrow.Reveal(), "/clinic/patients"))
}

// plainHTTP sends no token: it would be readable on its way.
func (s *session) plainHTTP() Finding {
	rest, secure := strings.CutPrefix(s.config.Application.Site.BaseURL, "https://")
	if !secure {
		return hidden("the site itself is reached without TLS")
	}
	a, err := s.exchange("", http.MethodGet, "http://"+rest+"/clinic", nil)
	switch {
	case errors.Is(err, errLimit) || s.ctx.Err() != nil:
		return ambiguous("it was not asked")
	case err != nil:
		return hidden("nothing answers plain HTTP")
	}
	return statusOf(a)
}

func (s *session) emptyValues() Finding {
	id, lack := s.patientID()
	if lack != nil {
		return *lack
	}
	a := s.get("/clinic/patients/" + id)
	if _, isPatient := a.at("patient", "id"); !a.ok() || !isPatient {
		return unexpected(a)
	}
	switch value, there := a.at("patient", "mobile_number"); {
	case !there:
		return seen("absent", a)
	case value == nil:
		return seen("null", a)
	}
	return ambiguous("a mobile number that was not given is neither null nor left out", a)
}

func (s *session) unknownFields() Finding {
	id, lack := s.patientID()
	if lack != nil {
		return *lack
	}
	return decide(s.patch("/clinic/patients/"+id, object{"dispensary_probe": "1"}), "ignored", "rejected")
}

// firstPatient creates the patient that most requests are about, once.
func (s *session) firstPatient() answer { return s.createPatient(&s.first, "a") }

// secondPatient creates another one after the first, once.
func (s *session) secondPatient() answer { return s.createPatient(&s.second, "b") }

func (s *session) createPatient(kept **answer, name string) answer {
	if *kept == nil {
		a := s.post("/clinic/patients", object{
			"first_name": strings.ToUpper(name), "last_name": surname + " " + s.marker,
			"email":              "dispensary-probe-" + s.marker + "-" + name + "@example.com",
			"send_welcome_email": false, "metadata": object{"id": s.marker},
		})
		*kept = &a
		s.noteCreated("patient", a.text("patient", "id"))
	}
	return **kept
}

// patientID returns the id of the first patient, or why there is none.
func (s *session) patientID() (string, *Finding) {
	a := s.firstPatient()
	return lacking(a, a.text("patient", "id"), "no patient could be created")
}
