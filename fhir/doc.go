// Package fhir maps between the platform and FHIR R4, for an EHR that keeps or serves its records
// in FHIR. It follows US Core. It is no FHIR library: it sends nothing, and its types contain only
// the elements that it reads or writes.
//
//	create, err := fhir.PatientCreate(patient, fhir.PatientOptions{SendWelcomeEmail: api.Value(false)})
//	…
//	chart := fhir.Chart{System: "https://ehr.example/dispensary/us", PatientID: plan.Patient.ID, Subject: subject}
//	requests, err := chart.Requests(plan, variants)
//	ended, err := chart.Ended(plan, stored)
//
// # Usage
//
// [PatientCreate] reads a Patient of the EHR. [Chart.Requests] writes a MedicationRequest for each
// recommendation of a plan, for the medication list. [Chart.Ended] finds the stored ones that the
// plan no longer contains. Call both after each of your own calls that changes a plan, and for
// each event of a plan. The cookbook has the task "Write plans into a FHIR chart".
//
// Orders are not mapped: an order is a payment, not a hand-over.
//
// # Intent and status
//
//	platform                        FHIR                      reason
//	recommendation                  intent plan, reported     It authorizes nobody to dispense, and its
//	                                                          original is on the platform. "order" may
//	                                                          start the workflows of a pharmacy. US Core
//	                                                          queries both for the medication list.
//	plan is draft                   status draft
//	plan is active                  status active
//	plan is canceled, or no longer  status stopped            The patient may have taken some. "cancelled"
//	contains the recommendation     (by Ended)                denies it, "entered-in-error" is never true.
//	plan is in a newer state        status unknown
//	refill                          note RefillNote           The number of refills is unknown.
//
// # Guarantees
//
//   - Nothing is guessed. A value that is missing, incomplete or contradictory is an error with its
//     field. A dosage is always a complete text. Timing and dose are added if they are certain.
//   - Identifiers are stable: a later version writes the same ones for the same plan.
//   - Each text of the platform results in valid FHIR R4. Control characters are removed.
//   - Nothing unknown is overwritten. Ended returns IDs, and no resource is changed.
//
// # Dangers
//
//   - A canceled plan has no recommendations, and a changed plan lacks the old ones. Without Ended,
//     their rows stay active for ever.
//   - Events may arrive late, in another order or incomplete. Read the plan by its ID first.
//   - Decoding a stored resource into a type of this package loses its other elements, such as the
//     encounter or the reason. Patch the stored resource instead of replacing it.
//   - Notes are one element, and clinicians add some to the same row: replace only [RefillNote].
//   - A row that somebody stopped in the EHR becomes active again with the next event, because the
//     plan still recommends it. Change the plan instead.
//   - If a plan recommends a variant twice, only the order tells the two apart.
//   - The e-mail address of a patient is unique on the platform. Creating siblings with the address
//     of a parent fails.
//   - US Core requires an RxNorm code if there is one. The platform has none.
//
// # Privacy
//
// Errors contain the name of a field, never its value. The types with patient data print only their
// type and ID: see "Patient data" in package api.
//
// API sections: "Patient", "Treatment plan", "Variant".
package fhir
