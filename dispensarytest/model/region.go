package model

// Region is one of the platform's two countries. Accounts, tokens and data of
// the two are separate, so each Server stands for one region.
type Region string

// The regions of the platform.
const (
	UnitedStates Region = "US"
	Canada       Region = "CA"
)

// Currency is the code of the money that the region's prices are in: "USD".
func (r Region) Currency() string {
	if r == Canada {
		return "CAD"
	}
	return "USD"
}

// WorldSize is how much there is of everything. What the default world has more of
// stays; 0 adds nothing.
type WorldSize struct {
	Clinics  int
	Patients int // of all clinics together, as everything below
	Products int
	Plans    int
	Orders   int
}

// LargeWorld has 10 clinics, 2,000 patients, 2,000 products, 2,000 plans and 10,000 orders.
func LargeWorld() WorldSize {
	return WorldSize{Clinics: 10, Patients: 2_000, Products: 2_000, Plans: 2_000, Orders: 10_000}
}
