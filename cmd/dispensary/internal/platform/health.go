package platform

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// healthTime is the longest wait for the response to a health check.
const healthTime = 5 * time.Second

// HealthError is the error of a platform that does not respond as it should.
type HealthError struct{ error }

// Unwrap returns the cause.
func (e HealthError) Unwrap() error { return e.error }

// Health calls the control API at --control-addr of a running platform. It reads the settings,
// so it fails with a [HealthError] if the process does not respond, or its platform is blocked.
func (c *Config) Health(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.controlAddr+"/control/settings", nil)
	if err != nil {
		return fmt.Errorf("--control-addr %s: not of the form HOST:PORT", c.controlAddr)
	}
	transport := &http.Transport{} // without the proxy of the environment
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return HealthError{fmt.Errorf("--health: %w", err)}
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return HealthError{fmt.Errorf("--health: %s responded with %s", request.URL, response.Status)}
	}
	return nil
}
