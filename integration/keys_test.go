package integration_test

import "github.com/dispensary-go/dispensary"

// Keys as openssl rand -base64 32 makes them.
const (
	sealKeys = "2026:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
	stateKey = "9zfbHYIzCRb7Pzn6TXq+ZcRG9XkbbyPZc6fyGTXFxEk="
)

var (
	us     = dispensary.Environment{Region: dispensary.US, Stage: dispensary.Sandbox}
	canada = dispensary.Environment{Region: dispensary.Canada, Stage: dispensary.Sandbox}
)
