package jsondecode_test

import (
	"encoding/json"
	"testing"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// metadataEntry is an entry of the metadata list.
type metadataEntry struct {
	ID   string          `json:"id"`
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
}

// models has all types of responses and events.
type models struct {
	Products      *[]catalog.Product           `json:"products"`
	Meta          *api.Meta                    `json:"meta"`
	Variant       *catalog.Variant             `json:"variant"`
	Brand         *catalog.Brand               `json:"brand"`
	Type          catalog.PractitionerType     `json:"type"`
	Clinic        *clinic.Clinic               `json:"clinic"`
	Patient       *clinic.Patient              `json:"patient"`
	Patients      []clinic.PatientSummary      `json:"patients"`
	Practitioners []clinic.Practitioner        `json:"practitioners"`
	Staff         []clinic.StaffMember         `json:"staff"`
	Addresses     []clinic.Address             `json:"addresses"`
	Categories    []clinic.Category            `json:"categories"`
	Orders        []clinic.Order               `json:"orders"`
	Metadata      []metadataEntry              `json:"metadata"`
	Plan          *treatmentplans.Plan         `json:"treatment_plan"`
	Plans         []treatmentplans.PlanSummary `json:"treatment_plans"`
	Protocols     []treatmentplans.Protocol    `json:"protocols"`
	//lint:ignore SA1019 responses have it
	Template   treatmentplans.Template     `json:"template"`
	Link       *treatmentplans.DynamicLink `json:"dynamic_links"`
	Checkout   treatmentplans.Checkout     `json:"checkout"`
	Events     []events.Event              `json:"events"`
	Deliveries []events.Delivery           `json:"webhook_deliveries"`
	ClinicKey  events.ClinicKey            `json:"clinic_key"`
}

var modelTexts = []string{
	`{"products":[{"id":17,"name":"Zinc","status":"available","variant_count":"2","brand":{"id":"b","name":"B","prefix":"P"},"primary_variant":{"id":"v","units":90,"msrp":"N/A","primary":"1"},"dosage":null,"custom_dosage":{"amount":1,"recommended_duration":"9"}},null,7],"meta":{"current_page":"1","next_page":null,"total_pages":1.0,"total_count":3}}`,
	`{"variant":{"id":"v","msrp":"12.50","units":null,"product":{"id":"p","brand":{"id":"b"}},"primary":true},"brand":{"id":"b","status":"unavailable"},"type":{"id":"t","code":"ND"}}`,
	`{"clinic":{"id":"c","patient_count":3,"discount":7.5,"integration_activated_at":"2026-03-02T09:00:00.000Z"},"patient":{"id":"p","date_of_birth":"1984-02-29","discount":"1e999","text_message_notification":0,"metadata":{"id":42}},"patients":[{"id":"p"}]}`,
	`{"orders":[{"id":"o","completed_at":"2026-02-04 10:00:00 EST","item_total":"1,250.00","variant_ids":["v",null,{}],"line_items":[{"variant_id":"v","quantity":"x"}]}],"addresses":[{"id":"a","zipcode":12345}],"categories":[{"id":"c","product_count":1e2}]}`,
	`{"treatment_plan":{"id":"t","state":"active","patient":{"id":1},"available_at":"2026-03-02","recommendations":[{"variant_id":"v","refill":"true","units_to_purchase":"3","take_with":"food","dosage":{"recommended_amount":"1","times":[]}}],"metadata":null}}`,
	`{"protocols":[{"id":"p","practitioner":{"id":"r"},"recommendations":[{"refill":1,"quantity_recommended":"2","dosage_amount":1.50}]}],"template":{"id":"t","current_state":"draft"},"dynamic_links":{"redirect_url":"https://a.example","treatment_plan":{"id":"t"},"patient":null},"checkout":{"url":"u"}}`,
	`{"events":[{"id":17,"type":"order.placed","created_at":"x","data":{"a":[1]}},[]],"webhook_deliveries":[{"id":"d","attempt_number":"2","successfully_delivered":"false","response_status":200,"event_payload":{"event":{"id":"e"}}}],"metadata":[{"id":"m","type":"patient","data":{"id":"p"}}],"clinic_key":{"id":5}}`,
	`{"practitioners":[{"id":"r","email":"\u0061@example.com"}],"staff":[{"ID":"s","First_Name":"A"}],"treatment_plans":[{"id":"t","created_at":"2026-03-02T09:00:00\u002B00:00"}]}`,
}

// FuzzUnmarshal compares jsondecode with encoding/json for all shapes and models:
//
//	go test -run '^$' -fuzz FuzzUnmarshal -fuzztime 10m ./internal/jsondecode
func FuzzUnmarshal(f *testing.F) {
	for _, text := range append(texts, modelTexts...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		same[record](t, data)
		same[[]record](t, data)
		same[models](t, data)
	})
}
