package control

import "github.com/dispensary-go/dispensary/dispensarytest"

func worldOperations() []Operation {
	return []Operation{
		list("patients.list", "/patients", "patients", "All patients, in the order they were created.", func(c *call) []dispensarytest.Patient { return c.platform().Patients() },
			"id", "clinic_id", "email", "metadata_id"),
		list("plans.list", "/plans", "plans", "All treatment plans, in the order they were created.", func(c *call) []dispensarytest.Plan { return c.platform().Plans() },
			"id", "clinic_id", "patient_id", "state"),
		list("orders.list", "/orders", "orders", "All orders, in the order they were placed.", func(c *call) []dispensarytest.Order { return c.platform().Orders() },
			"id", "clinic_id", "patient_id"),
		list("products.list", "/products", "products", "All products, in the catalog's order.", func(c *call) []dispensarytest.Product { return c.platform().Products() },
			"id", "brand_id", "name"),
		list("events.list", "/events", "events", "The events that are kept, the oldest first: those of the last 30 days, and 50,000 at most unless the platform was started otherwise.", func(c *call) []dispensarytest.Event { return c.platform().Events() },
			"id", "type", "clinic_id"),
	}
}
