package enginetest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// canary stands for patient data. An engine must never store it in clear text.
const canary = "Zaphod-Inbox-Canary"

var (
	usSandbox = api.USSandbox
	caSandbox = api.CanadaSandbox
	epoch     = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
)

// patient returns an event about a patient, created n minutes after the epoch.
func patient(eventID, patientID string, n int) webhook.Delivery {
	d := webhook.Delivery{
		Key:        webhook.Key{Environment: usSandbox, EventID: eventID, IntegrationID: "in_1"},
		Type:       events.TypePatientUpdated,
		ClinicID:   "cl_1",
		CreatedAt:  epoch.Add(time.Duration(n) * time.Minute),
		ReceivedAt: time.Now().UTC().Truncate(time.Microsecond),
	}
	// The white space must survive, because the signature covers the exact bytes.
	d.Body = fmt.Appendf(nil, "{ \"event\" :{\"id\":%q,\"type\":%q,\"created_at\":%q,\"clinic_id\":\"cl_1\",\r\n\"data\":{\"patient\":{\"id\":%q,\"first_name\":%q}}}}\n",
		eventID, d.Type, d.CreatedAt.Format(time.RFC3339), patientID, canary)
	return d
}

// created is patient for the creation of the patient.
func created(eventID, patientID string, n int) webhook.Delivery {
	d := patient(eventID, patientID, n)
	d.Type, d.Body = events.TypePatientCreated, bytes.Replace(d.Body, []byte(events.TypePatientUpdated), []byte(events.TypePatientCreated), 1)
	return d
}

// numbered returns n events about n patients.
func numbered(n int) []webhook.Delivery {
	all := make([]webhook.Delivery, n)
	for i := range all {
		all[i] = patient(fmt.Sprint("evt_", i), fmt.Sprint("pa_", i), i)
	}
	return all
}

// integration returns the event of d as sent to another integration.
func integration(d webhook.Delivery, id string) webhook.Delivery {
	d.Key.IntegrationID = id
	return d
}
