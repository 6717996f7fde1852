package store

import (
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func (w *World) StaffOf(clinicID, id string) (*model.StaffMember, bool) {
	m, ok := w.Staff.Get(id)
	return m, ok && m.ClinicID == clinicID
}

// PatientOfPlan is the id of the patient that a plan is for; "" where there is none.
func (w *World) PatientOfPlan(id string) string {
	if plan, known := w.Plans.Get(id); known {
		return plan.PatientID
	}
	return ""
}

func (w *World) FirstAvailable() *model.Variant {
	for v := range w.Variants.All() {
		if v.Status == model.VariantAvailable {
			return v
		}
	}
	return nil
}

// ForgetEvents drops the events that are not kept any more, and returns their ids.
func (w *World) ForgetEvents(now time.Time, limit int) (ids []string) {
	for w.Events.Len() > 0 {
		oldest := w.Events.At(0)
		if now.Sub(oldest.CreatedAt) <= Retention && w.Events.Len() <= limit {
			break
		}
		w.Events.Remove(oldest.ID)
		ids = append(ids, oldest.ID)
	}
	return ids
}

// Retention is how long events and deliveries can be read. API section:
// "Limits".
const Retention = 30 * 24 * time.Hour
