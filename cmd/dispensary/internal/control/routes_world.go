package control

import "github.com/dispensary-go/dispensary/dispensarytest"

func worldOperations() []Operation {
	return []Operation{
		list("clinics.list", "/clinics", "clinics", "All clinics.",
			"clinics := fake.Platform().Clinics()", func(c *call) []dispensarytest.Clinic { return c.platform().Clinics() }),
		list("practitioners.list", "/practitioners", "practitioners", "All practitioners.",
			"practitioners := fake.Platform().Practitioners()", func(c *call) []dispensarytest.Practitioner { return c.platform().Practitioners() }),
		list("patients.list", "/patients", "patients", "All patients, in the order they were created.",
			"patients := fake.Platform().Patients()", func(c *call) []dispensarytest.Patient { return c.platform().Patients() },
			"clinic_id", "email", "metadata_id"),
		read("patients.get", "/patients/{patient_id}", "patient", "A patient.",
			"patient, found := fake.Platform().Patient(patientID)",
			func(c *call) (dispensarytest.Patient, error) { return find(c, "patient_id", c.platform().Patient) }),
		read("patients.cart", "/patients/{patient_id}/cart", "cart", "What a patient is about to order: an in-office checkout fills it.",
			"lines := fake.Platform().Cart(patientID)",
			func(c *call) ([]dispensarytest.Line, error) { return c.platform().Cart(c.path("patient_id")), nil }),
		list("plans.list", "/plans", "plans", "All treatment plans, in the order they were created.",
			"plans := fake.Platform().Plans()", func(c *call) []dispensarytest.Plan { return c.platform().Plans() },
			"clinic_id", "patient_id", "state"),
		read("plans.get", "/plans/{plan_id}", "plan", "A treatment plan.",
			"plan, found := fake.Platform().Plan(planID)",
			func(c *call) (dispensarytest.Plan, error) { return find(c, "plan_id", c.platform().Plan) }),
		list("orders.list", "/orders", "orders", "All orders, in the order they were placed.",
			"orders := fake.Platform().Orders()", func(c *call) []dispensarytest.Order { return c.platform().Orders() },
			"clinic_id", "patient_id"),
		read("orders.get", "/orders/{order_id}", "order", "An order.",
			"order, found := fake.Platform().Order(orderID)",
			func(c *call) (dispensarytest.Order, error) { return find(c, "order_id", c.platform().Order) }),
		list("brands.list", "/brands", "brands", "All brands.",
			"brands := fake.Platform().Brands()", func(c *call) []dispensarytest.Brand { return c.platform().Brands() }),
		list("products.list", "/products", "products", "All products, in the catalog's order.",
			"products := fake.Platform().Products()", func(c *call) []dispensarytest.Product { return c.platform().Products() },
			"brand_id", "name"),
		read("products.get", "/products/{product_id}", "product", "A product.",
			"product, found := fake.Platform().Product(productID)",
			func(c *call) (dispensarytest.Product, error) { return find(c, "product_id", c.platform().Product) }),
		read("variants.get", "/variants/{variant_id}", "variant", "A pack of a product.",
			"variant, found := fake.Platform().Variant(variantID)",
			func(c *call) (dispensarytest.Variant, error) { return find(c, "variant_id", c.platform().Variant) }),
		list("events.list", "/events", "events", "The events that are kept, the oldest first: those of the last 30 days, and 50,000 at most unless the platform was started otherwise.",
			"events := fake.Platform().Events()", func(c *call) []dispensarytest.Event { return c.platform().Events() },
			"type", "clinic_id"),
	}
}

// find looks something up by the path's parameter.
func find[T any](c *call, parameter string, get func(id string) (T, bool)) (T, error) {
	id := c.path(parameter)
	found, known := get(id)
	if !known {
		return found, &problem{status: 404, message: "nothing has the " + parameter + " " + id}
	}
	return found, nil
}
