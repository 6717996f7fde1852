package main

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/console"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/dispensarytest"
)

func (p *program) fakeCommand() *cobra.Command {
	c := fakeConfig{}
	command := &cobra.Command{
		Use:   "fake",
		Short: "Run a test platform until Ctrl-C",
		Long:  fakeHelp + namesHelp(),
		Example: `  dispensary fake --addr 127.0.0.1:8080 --webhook http://127.0.0.1:9000/webhooks
  dispensary fake --json --freeze 2026-03-02T09:00:00Z
  dispensary fake --tls --cert platform.pem --behavior refresh-rotation=grace`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := c.complete(command.Flags()); err != nil {
				return err
			}
			return fake(command.Context(), c, func(_ *dispensarytest.Server, settings control.Settings) error {
				return p.announce(c, settings)
			}, p.sayWhereKept)
		},
	}
	c.define(command.Flags())
	return command
}

// fake runs the platform until ctx ends. It calls ready once everything answers, and kept
// with the name of the state file once that has been written for the last time.
func fake(ctx context.Context, c fakeConfig, ready func(*dispensarytest.Server, control.Settings) error, kept func(name string)) (err error) {
	if c.kept != nil {
		defer c.kept.lock.release()
	}
	platform, err := dispensarytest.Start(c.options...)
	if err != nil {
		return startError(err, c.addr)
	}
	defer func() { err = errors.Join(err, platform.Close()) }()
	if c.certificate != "" {
		if err := writeCertificate(c.certificate, platform); err != nil {
			return err
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.controlAddr)
	if err != nil {
		return listenError("--control-addr", c.controlAddr, err)
	}
	origin := "http://" + listener.Addr().String()
	api := control.New(platform, control.Options{ControlURL: origin + "/control", ConsoleURL: origin + "/console/"})
	answers := func() error { return ready(platform, api.Settings()) }
	if c.kept == nil {
		return serve(ctx, listener, besidePlatform(platform, api), answers)
	}
	c.kept.platform = platform
	if err := keep(ctx, c.kept, listener, besidePlatform(platform, api), answers); err != nil {
		return err
	}
	kept(c.kept.name)
	return nil
}

// sayWhereKept says at the end where the state is.
func (p *program) sayWhereKept(name string) {
	if !p.json {
		_, _ = fmt.Fprintf(p.out, "The state is kept in %s.\n", name) // a reader may be gone
	}
}

// keep serves and keeps the state file; the end of either ends the other. The file is
// written once before anything is announced, so that a file that cannot be written is
// noticed at once, and for the last time before the platform is closed, which ends
// deliveries.
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
	err := serve(ctx, listener, handler, ready)
	stop()
	if unsaved := <-kept; unsaved != nil {
		return failed(errors.Join(err, unsaved))
	}
	return failed(errors.Join(err, s.save()))
}

// besidePlatform serves the control API and the console.
func besidePlatform(platform *dispensarytest.Server, api *control.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/control/", http.StripPrefix("/control", api))
	mux.Handle("/console/", http.StripPrefix("/console", console.New(platform, api)))
	mux.Handle("/{$}", control.Local(http.RedirectHandler("/console/", http.StatusFound)))
	return mux
}

// grace is how long running requests may take after the signal to end.
const grace = 3 * time.Second

// serve answers until ctx ends, and calls ready once it does.
func serve(ctx context.Context, listener net.Listener, handler http.Handler, ready func() error) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
		// Requests that wait for a delivery end with it.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	if err := ready(); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if server.Shutdown(ending) != nil {
		return server.Close()
	}
	return nil
}

// announce prints the settings, once everything answers.
func (p *program) announce(c fakeConfig, settings control.Settings) error {
	if p.json {
		return p.printJSON(settings)
	}
	out := p.out
	fmt.Fprintln(out, "A test platform of the dispensary. Nothing here is real.")
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
	_, err := fmt.Fprint(out, "\nEnd with Ctrl-C.\nReady.\n")
	return err
}

func writeCertificate(name string, platform *dispensarytest.Server) error {
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: platform.Certificate().Raw})
	if err := os.WriteFile(name, block, 0o644); err != nil {
		return fmt.Errorf("--cert: %w", err)
	}
	return nil
}
