package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/listen"
	"github.com/dispensary-go/dispensary/events"
)

// listenConfig is what the flags of listen say.
type listenConfig struct {
	target
	forwardConfig
	users, types    []string
	since, interval time.Duration
	cursor          string
}

func (p *program) listenCommand() *cobra.Command {
	c := listenConfig{}
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
  dispensary listen --forward-to http://localhost:3000/webhooks --user dr-house --user dr-wilson --json`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return p.listen(command.Context(), c) },
	}
	flags := command.Flags()
	c.target.define(flags)
	c.forwardConfig.define(flags)
	flags.StringArrayVar(&c.users, "user", []string{"me"}, "listen at the clinic of the connected user `ID`, and not at that of DISPENSARY_ACCESS_TOKEN; may be repeated")
	flags.StringArrayVar(&c.types, "type", nil, "forward events of `TYPE` only, such as order.placed; may be repeated")
	flags.DurationVar(&c.since, "since", 0, "begin so long ago, at the first start: `TIME` such as 2h")
	flags.DurationVar(&c.interval, "interval", listen.DefaultInterval, "ask the platform every `TIME`")
	flags.StringVar(&c.cursor, "cursor", "", "keep in `FILE` how far listen came; one of the configuration folder unless set")
	return command
}

// listen forwards events until ctx ends.
func (p *program) listen(ctx context.Context, c listenConfig) error {
	forwarder, with, err := p.forwarder(c.forwardConfig, c.target)
	if err != nil {
		return err
	}
	out, begun := &answers{p: p}, false
	polled := p.pollPrinter()
	config := listen.Config{Forwarder: forwarder, Cursor: c.cursor, Since: c.since, Types: typesOf(c.types), Interval: c.interval}
	config.ForwardEnd = out.add
	config.PollEnd = func(poll listen.Poll) {
		if !begun {
			begun = true
			p.announce(c, config.Sources, with)
		}
		polled(poll)
	}
	create := func(sources ...listen.Source) (*listen.Listener, error) {
		config.Sources = sources
		return listen.New(config)
	}
	sources, closed, err := p.sources(ctx, c.target, c.users, func(site dispensary.Site, s listen.Source) (err error) {
		if config.Cursor == "" {
			config.Cursor, err = p.cursorFile(site, c.url)
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

// announce prints how to configure the receiver.
func (p *program) announce(c listenConfig, sources []listen.Source, with receiverSecrets) {
	fmt.Fprintf(p.errOut, "Listening at %d clinic(s) of %s. Configure the receiver with\n", len(sources), sources[0].Environment)
	if c.configured {
		with = receiverSecrets{"that of the configuration", "that of the configuration"}
	}
	fmt.Fprintf(p.errOut, "  webhook secret   %s\n  challenge token  %s\n", with.Secret, with.Challenge)
}

// pollPrinter prints each problem of a poll once.
func (p *program) pollPrinter() func(listen.Poll) {
	last := map[string]string{}
	report := func(source, text string) { fmt.Fprintf(p.errOut, "dispensary: %s: %s\n", source, oneLine(text)) }
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
func (p *program) sources(ctx context.Context, t target, users []string, check func(dispensary.Site, listen.Source) error) (sources []listen.Source, closed func() error, err error) {
	var opened []func() error
	closed = func() error {
		var failures []error
		for _, one := range slices.Backward(opened) {
			failures = append(failures, one())
		}
		return errors.Join(failures...)
	}
	for _, user := range users {
		t.user = user
		client, one, err := p.client(ctx, t)
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
