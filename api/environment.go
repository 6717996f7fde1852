package api

import (
	"fmt"
	"strings"
)

// Region is the country a platform account belongs to. Accounts, tokens and
// records of one region do not exist in the other.
// API section: "What the service does", environments.
type Region string

// The regions of the platform.
const (
	US     Region = "us" // United States
	Canada Region = "ca" // Canada
)

// Stage distinguishes live data from test data.
// API section: "What the service does", environments.
type Stage string

// The stages of the platform.
const (
	Production Stage = "production" // live data
	Sandbox    Stage = "sandbox"    // test data
)

// Environment is one of the platform's separate worlds: a region at a stage.
// It is comparable and serves as a map key. The zero value is no environment
// and is refused wherever one is needed.
//
// Credentials and tokens carry the environment they were made for, and a client
// of another environment refuses them with [ErrWrongEnvironment] before
// anything is sent.
type Environment struct {
	Region Region
	Stage  Stage
}

// Environments lists every environment of the platform, in a fixed order.
func Environments() []Environment {
	return []Environment{
		{US, Production}, {Canada, Production},
		{US, Sandbox}, {Canada, Sandbox},
	}
}

// String returns region and stage as "us/sandbox", or "none" for the zero value.
func (e Environment) String() string {
	if e == (Environment{}) {
		return "none"
	}
	return string(e.Region) + "/" + string(e.Stage)
}

// ParseEnvironment reads the form that [Environment.String] writes, in any case.
func ParseEnvironment(s string) (Environment, error) {
	for _, e := range Environments() {
		if strings.EqualFold(s, e.String()) {
			return e, nil
		}
	}
	return Environment{}, fmt.Errorf("dispensary: %q is no environment: want a region and a stage, like us/sandbox", s)
}

// Validate reports an environment that is not one of [Environments], with an
// [*ArgumentError].
func (e Environment) Validate() error {
	switch {
	case e == (Environment{}):
		return &ArgumentError{Field: "Environment", Reason: "is missing: no environment given"}
	case e.Region != US && e.Region != Canada:
		return &ArgumentError{Field: "Environment.Region", Reason: "is neither us nor ca"}
	case e.Stage != Production && e.Stage != Sandbox:
		return &ArgumentError{Field: "Environment.Stage", Reason: "is neither production nor sandbox"}
	}
	return nil
}
