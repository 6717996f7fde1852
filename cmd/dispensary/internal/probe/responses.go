package probe

import (
	"errors"
	"net/http"
	"strings"
	"time"
)

// recordPoints returns the points that requests with a user's token show, on the created
// records and on the catalog. The first point determines whether the clinic key is needed.
func recordPoints() []point {
	return []point{
		{"clinic-key-header", []string{"optional", "clinic-endpoint", "always"}, observeClinicKeyHeader},
		{"integration-activation", []string{"first-key", "from-the-start"}, observeIntegrationActivation},
		{"metadata-lag", []string{"none", "5s", "1m"}, observeMetadataLag},
		{"success-status", []string{"201-for-created", "always-200"}, observeSuccessStatus},
		{"error-shape", []string{"by-status", "text", "status-and-text", "coded-list"}, observeErrorShape},
		{"validation-status", []string{"422", "400"}, func(s *session) Finding { return statusOf(s.invalid()) }},
		{"missing-scope-status", []string{"403", "404"}, observeMissingScope},
		{"plain-http-status", []string{"403", "400"}, observePlainHTTP},
		{"empty-values", []string{"null", "absent"}, observeEmptyValues},
		{"unknown-fields", []string{"ignored", "rejected"}, observeUnknownFields},
		{"unknown-parameters", []string{"ignored", "rejected"}, func(s *session) Finding {
			return decide(s.get("/clinic/patients", "dispensary_probe", "1"), "ignored", "rejected")
		}},
		{"metadata-type", []string{"optional", "required"}, func(s *session) Finding {
			return decide(s.get("/clinic/metadata", "id", s.marker), "optional", "required")
		}},
		notObservable("rate-limit", "needs more than 5,000 requests in 5 minutes", "off", "5000-in-5m"),
	}
}

// observeClinicKeyHeader must run first, because it enables the clinic key for all later requests.
func observeClinicKeyHeader(s *session) Finding {
	s.withoutKey = s.get("/clinic")
	patients := s.get("/clinic/patients", "page[size]", "1")
	s.key = s.config.ClinicKey.Reveal()
	if s.withoutKey.ok() && patients.ok() {
		return seen("optional", s.withoutKey, patients)
	}
	if s.key == "" {
		return ambiguous("a request was rejected, and no clinic key is configured", s.withoutKey, patients)
	}
	withKey, again := s.get("/clinic"), s.get("/clinic/patients", "page[size]", "1")
	switch {
	case !withKey.ok() || !again.ok():
		return ambiguous("a request was rejected even with the clinic key", s.withoutKey, patients, withKey, again)
	case patients.ok():
		return seen("clinic-endpoint", s.withoutKey, patients, withKey)
	case s.withoutKey.ok():
		return ambiguous("GET /clinic works without the clinic key, but other requests do not", s.withoutKey, patients, again)
	}
	return seen("always", s.withoutKey, patients, withKey, again)
}

// observeIntegrationActivation can be observed only before the first use of the key and within 30
// days after it. The first use creates an event with the time of activation.
func observeIntegrationActivation(s *session) Finding {
	activated, there := s.withoutKey.at("clinic", "integration_activated_at")
	if s.withoutKey.ok() && activated == nil {
		_, isClinic := s.withoutKey.at("clinic", "id")
		if !there && !isClinic {
			return ambiguous("the response contains no clinic", s.withoutKey)
		}
		return seen("first-key", s.withoutKey)
	}
	now := s.get("/clinic")
	events := s.get("/events/clinic_keys", "event_type", "clinic_key.activated", "page[size]", "100")
	if !now.ok() || !events.ok() {
		return ambiguous("could not read the clinic or its events", now, events)
	}
	since, err := time.Parse(time.RFC3339, now.text("clinic", "integration_activated_at"))
	for _, event := range events.rows("events") {
		at, wrong := time.Parse(time.RFC3339, textAt(event, "created_at"))
		if err == nil && wrong == nil && at.Sub(since).Abs() <= time.Second {
			return seen("first-key", now, events)
		}
	}
	return hidden("the integration was already active, and no event of the last 30 days shows the time of activation", now, events)
}

// maxLag is the longest wait for a lookup to find a new record.
const maxLag = time.Minute

// observeMetadataLag looks for the first patient right after its creation, and again with longer and
// longer waits.
func observeMetadataLag(s *session) Finding {
	made := s.firstPatient()
	if _, lack := lacking(made, made.text("patient", "id"), "could not create a patient"); lack != nil {
		return *lack
	}
	for waited := time.Duration(0); ; {
		a := s.get("/clinic/metadata", "id", s.marker, "type", "patient")
		switch {
		case !a.ok():
			return unexpected(a)
		case len(a.rows("metadata")) > 0:
			return foundAfter(waited, made, a)
		case waited >= maxLag:
			return ambiguous("the lookup did not find a new patient within "+waited.String(), made, a)
		}
		wait := waited + time.Second // after 1, 3, 7, 15, 31 and 63 seconds
		if err := s.config.sleep(s.ctx, wait); err != nil && s.err == nil {
			s.err = err
		}
		waited += wait
	}
}

// foundAfter returns the finding that a lookup found a record after a wait.
func foundAfter(waited time.Duration, by ...platformResponse) Finding {
	if waited == 0 {
		return seen("none", by...)
	}
	f := seen("1m", by...)
	if waited < 10*time.Second {
		f.Variant = "5s"
	}
	f.Why = "the lookup found a new patient after " + waited.String()
	return f
}

func observeSuccessStatus(s *session) Finding {
	a := s.firstPatient()
	switch a.status {
	case http.StatusCreated:
		return seen("201-for-created", a)
	case http.StatusOK:
		return seen("always-200", a)
	}
	return unexpected(a)
}

// invalid creates a patient without any field, which the platform should reject.
func (s *session) invalid() platformResponse {
	a := s.post("/clinic/patients", object{})
	s.noteCreated("patient", a.text("patient", "id"))
	return a
}

func observeErrorShape(s *session) Finding {
	missing, invalid := s.get("/clinic/patients/"+s.marker), s.invalid()
	if !missing.rejected() || !invalid.rejected() {
		return ambiguous("an unknown id or an empty body was not rejected", missing, invalid)
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
	return ambiguous("the bodies of two errors have an unknown combination of shapes", missing, invalid)
}

func shapeOf(a platformResponse) string {
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

func observeMissingScope(s *session) Finding {
	if s.config.Narrow.IsZero() {
		return hidden("needs a token without the scope patients:read: add --narrow-file")
	}
	return statusOf(s.getWith(s.config.Narrow.Reveal(), "/clinic/patients"))
}

// observePlainHTTP sends no token, because others could read it in transit.
func observePlainHTTP(s *session) Finding {
	rest, secure := strings.CutPrefix(s.config.Application.Site.BaseURL, "https://")
	if !secure {
		return hidden("the configured URL does not use TLS")
	}
	a, err := s.exchange("", http.MethodGet, "http://"+rest+"/clinic", nil)
	switch {
	case errors.Is(err, errLimit) || s.ctx.Err() != nil:
		return ambiguous("no request was sent")
	case err != nil:
		return hidden("plain HTTP gets no response")
	}
	return statusOf(a)
}

func observeEmptyValues(s *session) Finding {
	id, lack := s.patientID()
	if lack != nil {
		return *lack
	}
	a := s.get("/clinic/patients/" + id)
	if _, isPatient := a.at("patient", "id"); !a.ok() || !isPatient {
		return unexpected(a)
	}
	switch value, there := a.at("patient", "date_of_birth"); {
	case !there:
		return seen("absent", a)
	case value == nil:
		return seen("null", a)
	}
	return ambiguous("an unset date of birth is neither null nor absent", a)
}

func observeUnknownFields(s *session) Finding {
	id, lack := s.patientID()
	if lack != nil {
		return *lack
	}
	return decide(s.patch("/clinic/patients/"+id, object{"dispensary_probe": "1"}), "ignored", "rejected")
}

// firstPatient creates the patient of most requests, once.
func (s *session) firstPatient() platformResponse { return s.createPatient(&s.first, "a") }

// secondPatient creates a second patient after the first, once.
func (s *session) secondPatient() platformResponse { return s.createPatient(&s.second, "b") }

func (s *session) createPatient(kept **platformResponse, name string) platformResponse {
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

// patientID returns the id of the first patient, or a finding if it could not be created.
func (s *session) patientID() (string, *Finding) {
	a := s.firstPatient()
	return lacking(a, a.text("patient", "id"), "could not create a patient")
}
