// Package environ defines the names of the environment variables with the platform's URLs.
package environ

import (
	"strings"

	"github.com/dispensary-go/dispensary/api"
)

// All returns every environment of the platform, in a fixed order.
func All() []api.Environment {
	return []api.Environment{api.USProduction, api.CanadaProduction, api.USSandbox, api.CanadaSandbox}
}

// Variables returns the names of the variables with the URLs of an environment:
// DISPENSARY_US_SANDBOX_BASE_URL and DISPENSARY_US_SANDBOX_AUTH_URL for [api.USSandbox].
func Variables(e api.Environment) (baseURL, authURL string) {
	prefix := "DISPENSARY_" + strings.ToUpper(strings.ReplaceAll(string(e), "/", "_"))
	return prefix + "_BASE_URL", prefix + "_AUTH_URL"
}

// Shared returns the names of the variables that are not settings of an integration: the
// variables of a single client, and the URL of the control API for a program that runs beside
// the fake.
func Shared() []string {
	return []string{"DISPENSARY_ENVIRONMENT", "DISPENSARY_ACCESS_TOKEN", "DISPENSARY_CLINIC_KEY", "DISPENSARY_CONTROL_URL"}
}
