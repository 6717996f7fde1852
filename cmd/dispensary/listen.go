package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/listen"
	"github.com/dispensary-go/dispensary/events"
)

// listenCommand is the command with its flags.
type listenCommand struct {
	*program
	target
	url             string // of the receiver
	configured      bool   // sign with the secrets of the configuration
	users, types    []string
	headers         []string // for the receiver
	show            string   // of --print
	since, interval time.Duration
	cursor          string
}

func newListenCommand(p *program) *cobra.Command {
	c := listenCommand{program: p}
	command := &cobra.Command{
		Use:   "listen",
		Short: "Forward events of the platform to your receiver",
		Long: `Listen polls the platform for events and posts each event to your receiver as a signed webhook
with the same body and key as the platform's webhook. An inbox that receives both handles the
event once. Listen needs no tunnel and no relay. It loses no event while it is off: it continues
from its last position, up to 30 days back, the time for which the platform keeps events.

An event is done once the receiver responds with 200 or 201 and the challenge token. Otherwise
listen retries it with increasing waits of up to 1 minute. At the start, listen prints the webhook
secret and the challenge token for the receiver. If the receiver has those of the platform, use
--configured. Listen changes nothing on the platform.

Exit codes: 0 after Ctrl-C. 1 if it failed after its first request. 2 if it sent no request.`,
		Example: `  dispensary listen --forward-to http://localhost:3000/webhooks
  dispensary listen --forward-to http://localhost:3000/webhooks --since 2h --type order.placed
  dispensary listen --forward-to http://localhost:3000/webhooks --configured --profile sandbox
  dispensary listen --forward-to http://localhost:3000/webhooks --user dr-house --user dr-wilson --json
  dispensary listen --forward-to https://tunnel.example/webhooks --header 'X-Tunnel-Auth: 1'
  WEBHOOK_SECRET=$(dispensary listen --print secret) npm start`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if c.show != "" {
				return c.printReceiver()
			}
			return c.run(command.Context())
		},
	}
	flags := command.Flags()
	c.define(flags)
	flags.StringVar(&c.url, "forward-to", "", "post events to the receiver at `URL`, such as http://localhost:3000/webhooks")
	flags.BoolVar(&c.configured, "configured", false, "use the webhook secret and the challenge token of the configuration instead of those of this machine")
	flags.StringArrayVar(&c.users, "user", []string{"me"}, "forward events of the clinic of the connected user `ID`; if set, DISPENSARY_ACCESS_TOKEN is ignored; repeatable")
	flags.StringArrayVar(&c.headers, "header", nil, "send the header `'NAME: VALUE'` with each event; repeatable")
	flags.StringVar(&c.show, "print", "", "print only the secret or the challenge token of this machine, and exit; `WORD` is secret or challenge")
	flags.StringArrayVar(&c.types, "type", nil, "forward only events of `TYPE`, such as order.placed; repeatable")
	flags.DurationVar(&c.since, "since", 0, "begin at the first start with events up to `TIME` old, such as 2h (default: only new events)")
	flags.DurationVar(&c.interval, "interval", listen.DefaultInterval, "poll the platform every `TIME`")
	flags.StringVar(&c.cursor, "cursor", "", "store the position in `FILE` (default: a file in the configuration folder)")
	return command
}

// run forwards events until ctx ends.
func (c *listenCommand) run(ctx context.Context) error {
	forwarder, with, err := c.forwarder()
	if err != nil {
		return err
	}
	out, begun := &responses{p: c.program}, false
	polled := c.pollPrinter()
	config := listen.Config{Forwarder: forwarder, Cursor: c.cursor, Since: c.since, Types: typesOf(c.types), Interval: c.interval}
	config.ForwardEnd = out.add
	config.PollEnd = func(poll listen.Poll) {
		if !begun {
			begun = true
			c.announce(config.Sources, with)
		}
		polled(poll)
	}
	create := func(sources ...listen.Source) (*listen.Listener, error) {
		config.Sources = sources
		return listen.New(config)
	}
	sources, closed, err := c.sources(ctx, func(site dispensary.Site, s listen.Source) (err error) {
		if config.Cursor == "" {
			config.Cursor, err = c.cursorFile(site, c.url)
		}
		if err == nil {
			_, err = create(s)
		}
		return err
	})
	defer func() { _ = closed() }()
	if err != nil {
		return err
	}
	listener, err := create(sources...)
	if err != nil {
		return err
	}
	err = listener.Run(ctx)
	switch {
	case errors.Is(err, listen.ErrInUse):
		return fmt.Errorf("--cursor %s is in use by another listener", config.Cursor)
	case ctx.Err() != nil && err == context.Cause(ctx):
		return failed(out.err)
	case !begun:
		return fmt.Errorf("--cursor: %w", err)
	}
	return failed(errors.Join(err, out.err))
}

// printReceiver prints one secret of this machine without other text, for a script or a clipboard.
func (c *listenCommand) printReceiver() error {
	if c.configured || c.json || c.url != "" {
		return errors.New("--print only prints plain text: omit --forward-to, --configured and --json")
	}
	with, err := c.localReceiver()
	text := map[string]string{"secret": with.Secret, "challenge": with.Challenge}[c.show]
	switch {
	case err != nil:
		return err
	case text == "":
		return errors.New("--print must be secret or challenge")
	}
	_, err = fmt.Fprintln(c.out, text)
	return err
}

// headerLine matches a request header: the name, and the value without surrounding blanks.
var headerLine = regexp.MustCompile("^([\\w!#$%&'*+.^`|~-]+):[ \t]*([^\\x00-\\x1f\\x7f]*?)[ \t]*$")

// parseHeaders parses the headers of the command line. Its error contains no header, because a
// value may be secret.
func parseHeaders(lines []string) (http.Header, error) {
	header := http.Header{}
	for i, line := range lines {
		parts := headerLine.FindStringSubmatch(line)
		if parts == nil {
			return nil, fmt.Errorf("--header number %d must be 'NAME: VALUE'", i+1)
		}
		header.Add(parts[1], parts[2])
	}
	return header, nil
}

// announce prints the secrets for the receiver.
func (c *listenCommand) announce(sources []listen.Source, with receiverSecrets) {
	fmt.Fprintf(c.errOut, "Listening for events in %[2]s (clinics: %[1]d). Configure your receiver with:\n", len(sources), sources[0].Environment)
	if c.configured {
		with = receiverSecrets{"as in the configuration", "as in the configuration"}
	}
	fmt.Fprintf(c.errOut, "  webhook secret   %s\n  challenge token  %s\n", with.Secret, with.Challenge)
}

// pollPrinter returns a function that prints each problem of a poll once.
func (c *listenCommand) pollPrinter() func(listen.Poll) {
	last := map[string]string{}
	report := func(source, text string) { fmt.Fprintf(c.errOut, "dispensary: %s: %s\n", source, oneLine(text)) }
	return func(poll listen.Poll) {
		text := ""
		if poll.Err != nil {
			text = poll.Err.Error()
		}
		if text != last[poll.Source] && text != "" {
			report(poll.Source, text)
		}
		last[poll.Source] = text
		if poll.Gap {
			report(poll.Source, "events are lost, because this cursor was last used more than 30 days ago")
		}
	}
}

// sources returns the clinics of the users, without duplicates. It calls check before the first
// request of each source, so that invalid flags are rejected without a request.
func (c *listenCommand) sources(ctx context.Context, check func(dispensary.Site, listen.Source) error) (sources []listen.Source, closed func() error, err error) {
	var opened []func() error
	closed = func() error {
		var failures []error
		for _, one := range slices.Backward(opened) {
			failures = append(failures, one())
		}
		return errors.Join(failures...)
	}
	t := c.target
	for _, t.user = range c.users {
		client, one, err := c.client(ctx, t)
		if err != nil {
			return nil, closed, err
		}
		opened = append(opened, one)
		s := listen.Source{Environment: client.Site().Environment, Events: client.Events}
		if err := check(client.Site(), s); err != nil {
			return nil, closed, err
		}
		clinic, err := client.Clinic.Get(ctx)
		if err != nil {
			return nil, closed, err
		}
		if slices.ContainsFunc(sources, func(s listen.Source) bool { return s.Name == clinic.ID }) {
			continue
		}
		s.Name = clinic.ID
		if clinic.IntegrationID != "" {
			s.Integrations = []string{clinic.IntegrationID}
		}
		sources = append(sources, s)
	}
	if len(sources) == 0 {
		return nil, closed, errors.New("--user: no user is given")
	}
	return sources, closed, nil
}

// cursorFile returns the path of the cursor for a site and a receiver, and creates its folder.
func (p *program) cursorFile(site dispensary.Site, url string) (string, error) {
	folder, err := p.configFolder()
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	return filepath.Join(folder, siteFile("listen", ".json", site, url)), err
}

func typesOf(names []string) (types []events.Type) {
	for _, name := range names {
		types = append(types, events.Type(name))
	}
	return types
}

// forwarder creates the forwarder to the receiver, and returns its secrets: with --configured those
// of the configuration, and otherwise those of this machine.
func (c *listenCommand) forwarder() (_ *listen.Forwarder, with receiverSecrets, err error) {
	if c.url == "" {
		return nil, with, errors.New("--forward-to is required: use the URL of a receiver, such as http://localhost:3000/webhooks")
	}
	if c.configured {
		with, err = c.configuredReceiver()
	} else {
		with, err = c.localReceiver()
	}
	if err != nil {
		return nil, with, err
	}
	header, err := parseHeaders(c.headers)
	if err != nil {
		return nil, with, err
	}
	forwarder, err := listen.NewForwarder(listen.ForwarderConfig{
		URL: c.url, Header: header, Secret: dispensary.NewSecret(with.Secret), Challenge: dispensary.NewSecret(with.Challenge),
	})
	return forwarder, with, err
}

// configuredReceiver returns the secrets of the platform's own webhooks from the configuration.
func (c *listenCommand) configuredReceiver() (r receiverSecrets, err error) {
	settings, err := c.loadConfig("webhook_secrets", "webhook_challenge")
	if err != nil {
		return r, err
	}
	a, err := c.application(settings, c.target)
	if err != nil {
		return r, err
	}
	if len(a.WebhookSecrets) == 0 || a.WebhookChallenge.IsZero() {
		return r, fmt.Errorf("--configured: no webhook secret and challenge token are configured for %s", a.Site.Environment)
	}
	return receiverSecrets{a.WebhookSecrets[0].Reveal(), a.WebhookChallenge.Reveal()}, nil
}
