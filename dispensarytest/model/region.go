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

// LargeWorld is as much as a big integrator meets: 10 clinics, 10,000 patients,
// 20,000 products, 20,000 plans, 100,000 orders.
func LargeWorld() WorldSize {
	return WorldSize{Clinics: 10, Patients: 10_000, Products: 20_000, Plans: 20_000, Orders: 100_000}
}
