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
	configured      bool   // the receiver has the secrets of the configuration
	users, types    []string
	headers         []string // for the receiver
	show            string   // prints this only
	since, interval time.Duration
	cursor          string
}

func newListenCommand(p *program) *cobra.Command {
	c := listenCommand{program: p}
	command := &cobra.Command{
		Use:   "listen",
		Short: "Forward what happens on the platform to a receiver on this machine",
		Long: `Listen asks the platform what happens, and posts each event to your receiver as the platform's
webhooks are: the same body, signed, and recognised by an inbox that has had the webhook. There
is no tunnel and no relay. Nothing is lost while listen is off: it goes on where it ended, for as
long as the platform keeps events, which is 30 days.

An event is done when the receiver answers 200 or 201 with the challenge token; otherwise it is
tried again, ever less often, up to once a minute. At the start listen prints the secret and the
token to configure the receiver with; a receiver that has those of the platform is served with
--configured. It ends with Ctrl-C.`,
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
	flags.BoolVar(&c.configured, "configured", false, "sign with the webhook secret and the challenge token of the configuration, and not with those of this machine")
	flags.StringArrayVar(&c.users, "user", []string{"me"}, "listen at the clinic of the connected user `ID`, and not at that of DISPENSARY_ACCESS_TOKEN; may be repeated")
	flags.StringArrayVar(&c.headers, "header", nil, "send `'NAME: VALUE'` with each event; may be repeated")
	flags.StringVar(&c.show, "print", "", "print only the secret or the challenge token of this machine, a `WORD`: secret or challenge")
	flags.StringArrayVar(&c.types, "type", nil, "forward events of `TYPE` only, such as order.placed; may be repeated")
	flags.DurationVar(&c.since, "since", 0, "begin so long ago, at the first start: `TIME` such as 2h")
	flags.DurationVar(&c.interval, "interval", listen.DefaultInterval, "ask the platform every `TIME`")
	flags.StringVar(&c.cursor, "cursor", "", "keep in `FILE` how far listen came; one of the configuration folder unless set")
	return command
}

// run forwards events until ctx ends.
func (c *listenCommand) run(ctx context.Context) error {
	forwarder, with, err := c.forwarder()
	if err != nil {
		return err
	}
	out, begun := &answers{p: c.program}, false
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
		return fmt.Errorf("--cursor %s: another listener uses it", config.Cursor)
	case ctx.Err() != nil && err == context.Cause(ctx):
		return failed(out.err)
	case !begun:
		return fmt.Errorf("--cursor: %w", err)
	}
	return failed(errors.Join(err, out.err))
}

// printReceiver prints a secret of this machine alone, for a script or a clipboard.
func (c *listenCommand) printReceiver() error {
	if c.configured || c.json || c.url != "" {
		return errors.New("--print prints plain text and ends: leave out --forward-to, --configured and --json")
	}
	with, err := c.localReceiver()
	text := map[string]string{"secret": with.Secret, "challenge": with.Challenge}[c.show]
	switch {
	case err != nil:
		return err
	case text == "":
		return errors.New("--print: one of secret or challenge")
	}
	_, err = fmt.Fprintln(c.out, text)
	return err
}

// headerLine matches a header of a request.
var headerLine = regexp.MustCompile("^([\\w!#$%&'*+.^`|~-]+):[ \t]*([^\\x00-\\x1f\\x7f]*?)[ \t]*$")

// parseHeaders reads the headers of the command line. Values may be secret, so its error
// contains none.
func parseHeaders(lines []string) (http.Header, error) {
	header := http.Header{}
	for i, line := range lines {
		parts := headerLine.FindStringSubmatch(line)
		if parts == nil {
			return nil, fmt.Errorf("--header number %d is not of the form 'NAME: VALUE'", i+1)
		}
		header.Add(parts[1], parts[2])
	}
	return header, nil
}

// announce prints how to configure the receiver.
func (c *listenCommand) announce(sources []listen.Source, with receiverSecrets) {
	fmt.Fprintf(c.errOut, "Listening at %d clinic(s) of %s. Configure the receiver with\n", len(sources), sources[0].Environment)
	if c.configured {
		with = receiverSecrets{"that of the configuration", "that of the configuration"}
	}
	fmt.Fprintf(c.errOut, "  webhook secret   %s\n  challenge token  %s\n", with.Secret, with.Challenge)
}

// pollPrinter prints each problem of a poll once.
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
			report(poll.Source, "this cursor was not used for more than 30 days: older events are lost")
		}
	}
}

// sources returns the clinics of users, each once. check rejects wrong flags before the first
// request of a source.
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
		return nil, closed, errors.New("--user: there is none")
	}
	return sources, closed, nil
}

// cursorFile returns the path of the cursor of a site and a receiver.
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

// forwarder creates the forwarder to the receiver. Its secrets are those of the configuration,
// or those of this machine.
func (c *listenCommand) forwarder() (_ *listen.Forwarder, with receiverSecrets, err error) {
	if c.url == "" {
		return nil, with, errors.New("--forward-to is needed: the address of a receiver, such as http://localhost:3000/webhooks")
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

// configuredReceiver returns the secrets that the platform's own webhooks are sent with.
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
		return r, fmt.Errorf("--configured: no webhook secret and challenge token of %s are configured", a.Site.Environment)
	}
	return receiverSecrets{a.WebhookSecrets[0].Reveal(), a.WebhookChallenge.Reveal()}, nil
}
