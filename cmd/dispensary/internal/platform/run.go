// Package platform runs a fake platform as a program, with flags, a state file, the console
// and the control API.
package platform

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/console"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/httpserve"
	"github.com/dispensary-go/dispensary/dispensarytest"
)

// Run runs the platform until ctx is canceled, and then writes the state file a last time. It
// calls ready once all servers accept requests. It returns a [StateError] if it cannot write
// the state file.
func Run(ctx context.Context, c Config, ready func(*dispensarytest.Server, control.Settings) error) (err error) {
	if c.kept != nil {
		defer func() { _ = c.kept.lock.Close() }()
	}
	platform, err := dispensarytest.Start(c.options...)
	if err != nil {
		return startError(err, c.addr, c.StateFile())
	}
	defer func() { err = errors.Join(err, platform.Close()) }()
	if c.certificate != "" {
		if err := writeCertificate(c.certificate, platform); err != nil {
			return err
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.controlAddr)
	if err != nil {
		return httpserve.ListenError("--control-addr", c.controlAddr, err)
	}
	origin := "http://" + listener.Addr().String()
	api := control.New(platform, control.Options{ControlURL: origin + "/control", ConsoleURL: origin + "/console/"})
	responses := func() error { return ready(platform, api.Settings()) }
	if c.kept == nil {
		return httpserve.Serve(ctx, listener, besidePlatform(platform, api), responses)
	}
	c.kept.platform = platform
	return keep(ctx, c.kept, listener, besidePlatform(platform, api), responses)
}

// StateError is the error of a platform that ran but could not save its state.
type StateError struct{ error }

// Unwrap returns the cause.
func (e StateError) Unwrap() error { return e.error }

// keep runs the servers and the writer of the state file. If one stops, so does the other. It
// writes the file before it calls ready, so an unwritable file is reported at once. It writes
// the last state before Run closes the platform, because closing ends deliveries.
func keep(ctx context.Context, s *stateFile, listener net.Listener, handler http.Handler, ready func() error) error {
	if err := s.save(); err != nil {
		return errors.Join(err, listener.Close())
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	kept := make(chan error, 1)
	go func() {
		defer stop()
		kept <- s.writeChanges(ctx)
	}()
	err := httpserve.Serve(ctx, listener, handler, ready)
	stop()
	if unsaved := <-kept; unsaved != nil {
		return StateError{errors.Join(err, unsaved)}
	}
	if err := errors.Join(err, s.save()); err != nil {
		return StateError{err}
	}
	return nil
}

// besidePlatform returns the handler of the control API and the console.
func besidePlatform(platform *dispensarytest.Server, api *control.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/control/", http.StripPrefix("/control", api))
	mux.Handle("/console/", http.StripPrefix("/console", console.New(platform, api)))
	mux.Handle("/{$}", control.Local(http.RedirectHandler("/console/", http.StatusFound)))
	return mux
}

// Announce prints the settings of a running platform for people.
func Announce(out io.Writer, c Config, settings control.Settings) error {
	fmt.Fprintln(out, "A fake of the dispensary platform. It contains no real data.")
	fmt.Fprintln(out)
	for _, row := range [][2]string{
		{"Console", settings.ConsoleURL}, {"Control API", settings.ControlURL},
		{"API", settings.BaseURL}, {"Authorize at", settings.AuthURL + "/oauth/authorize"},
		{"Client ID", settings.ClientID}, {"Client secret", settings.ClientSecret}, {"Redirect URI", settings.RedirectURI},
		{"Webhook secret", settings.WebhookSecret}, {"Challenge token", settings.ChallengeToken}, {"Clinic key", settings.ClinicKey},
	} {
		fmt.Fprintf(out, "%-15s  %s\n", row[0], row[1])
	}
	if c.seed != "" {
		fmt.Fprintf(out, "%-15s  %s\n", "Seed", c.seed)
	}
	fmt.Fprintln(out)
	for _, user := range settings.Users {
		fmt.Fprintf(out, "%-15s  %s  %s\n", user.Type, user.Email, user.Password)
	}
	_, err := fmt.Fprint(out, "\nPress Ctrl-C to stop.\nReady.\n")
	return err
}

func writeCertificate(name string, platform *dispensarytest.Server) error {
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: platform.Certificate().Raw})
	if err := os.WriteFile(name, block, 0o644); err != nil {
		return fmt.Errorf("--cert: %w", err)
	}
	return nil
}

// flagOf maps an option to its flag.
var flagOf = map[string]string{
	"dispensarytest.WithRedirectURI": "--redirect-uri", "dispensarytest.WithScopes": "--scopes", "dispensarytest.WithWebhook": "--webhook",
	"dispensarytest.WithBehavior": "--behavior", "dispensarytest.WithBehaviorsFile": "--behaviors", "dispensarytest.Tuning.Integrations": "--integrations",
	"dispensarytest.WithWorldFile": "--world",
}

// startError returns the reason for a failed start in terms of the command line. It replaces
// options by flags, and removes the package prefix.
func startError(err error, addr, state string) error {
	var listening *net.OpError
	var argument *api.ArgumentError
	switch {
	case errors.As(err, &argument) && argument.Field == "dispensarytest.WithSnapshot":
		return fmt.Errorf("--state %s: %s; the file was not changed", state, strings.TrimPrefix(argument.Reason, "is invalid: "))
	case errors.As(err, &argument) && flagOf[argument.Field] != "":
		return errors.New(flagOf[argument.Field] + ": " + strings.TrimPrefix(argument.Reason, "is invalid: "))
	case errors.As(err, &listening) && listening.Op == "listen" && argument == nil:
		return httpserve.ListenError("--addr", addr, err)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "dispensarytest: "))
}

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
