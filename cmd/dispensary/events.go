package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	flag "github.com/spf13/pflag"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/listen"
	"github.com/dispensary-go/dispensary/webhook"
)

// eventFilter is what the flags say about which events are meant.
type eventFilter struct {
	types []string
	since time.Duration
}

func (f *eventFilter) define(flags *flag.FlagSet, since time.Duration) {
	flags.StringArrayVar(&f.types, "type", nil, "events of `TYPE` only, such as order.placed; may be repeated")
	flags.DurationVar(&f.since, "since", since, "what happened since so long ago: `TIME` such as 2h, up to 720h")
}

// find lists what the platform has, the oldest first.
func (f *eventFilter) find(ctx context.Context, service events.Service) ([]events.Event, error) {
	if f.since <= 0 {
		return nil, errors.New("--since: not a time that is over")
	}
	found, err := listen.Find(ctx, service, listen.FindOptions{Since: time.Now().Add(-f.since), Types: typesOf(f.types)})
	return found, flagged(err)
}

func (p *program) eventsCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "events",
		Short: "List, show and send again what happened on the platform",
		Long:  "Events are kept by the platform for 30 days.",
		Example: `  dispensary events list --since 2h
  dispensary events get evt_123
  dispensary events replay evt_123 --forward-to http://localhost:3000/webhooks`,
	}
	group(command, p.eventsListCommand(), p.eventsGetCommand(), p.eventsReplayCommand())
	return command
}

func (p *program) eventsListCommand() *cobra.Command {
	var t target
	var filter eventFilter
	command := &cobra.Command{
		Use:   "list",
		Short: "List events, without their data",
		Long:  "List lists what happened at the clinic of a user, the oldest first, without the data of the events.",
		Example: `  dispensary events list
  dispensary events list --since 720h --type order.placed --type patient.created
  dispensary events list --since 2h --json`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return p.withClient(command.Context(), t, func(ctx context.Context, client *dispensary.Client) error {
				found, err := filter.find(ctx, client.Events)
				return errors.Join(p.printEvents(found), err)
			})
		},
	}
	flags := command.Flags()
	t.define(flags)
	t.defineUser(flags)
	filter.define(flags, 24*time.Hour)
	return command
}

// printEvents prints events without their data.
func (p *program) printEvents(found []events.Event) error {
	var rows [][]string
	for _, e := range found {
		if p.json {
			if err := p.printJSON(e); err != nil {
				return failed(err)
			}
			continue
		}
		rows = append(rows, []string{e.CreatedAt.UTC().Format(time.RFC3339), string(e.Type), e.ID, e.ClinicID})
	}
	if p.json {
		return nil
	}
	return failed(p.print(nil, []string{"CREATED", "TYPE", "EVENT", "CLINIC"}, rows))
}

// withClient calls the platform as a user.
func (p *program) withClient(ctx context.Context, t target, use func(context.Context, *dispensary.Client) error) error {
	client, closed, err := p.client(ctx, t)
	if err != nil {
		return err
	}
	return errors.Join(use(ctx, client), failed(closed()))
}

func (p *program) eventsGetCommand() *cobra.Command {
	var t target
	command := &cobra.Command{
		Use:   "get ID...",
		Short: "Show events with their data",
		Long:  "Get shows events with their data, which may be that of patients.",
		Example: `  dispensary events get evt_123
  dispensary events get evt_123 evt_124 --json
  dispensary events get evt_123 --user dr-house`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("get wants the ids of events")
			}
			return nil
		},
		RunE: func(command *cobra.Command, ids []string) error {
			return p.withClient(command.Context(), t, func(ctx context.Context, client *dispensary.Client) error {
				for _, id := range ids {
					e, err := client.Events.Get(ctx, id)
					if err != nil {
						return err
					}
					document, err := json.Marshal(e)
					if err == nil {
						err = p.printRaw(document)
					}
					if err != nil {
						return failed(err)
					}
				}
				return nil
			})
		},
	}
	t.define(command.Flags())
	t.defineUser(command.Flags())
	return command
}

func (p *program) eventsReplayCommand() *cobra.Command {
	var t target
	var to forwardConfig
	var filter eventFilter
	command := &cobra.Command{
		Use:   "replay [ID...]",
		Short: "Post events to a receiver again",
		Long: `Replay posts events to a receiver once more, as listen does: those that are named, or all since
a time. An inbox that has had one of them says that it is a duplicate, and does not handle it
again. Exit code 1 says that the receiver did not acknowledge all of them.`,
		Example: `  dispensary events replay evt_123 --forward-to http://localhost:3000/webhooks
  dispensary events replay --since 2h --forward-to http://localhost:3000/webhooks
  dispensary events replay --since 48h --type order.placed --forward-to http://localhost:3000/webhooks --json`,
		Args: func(c *cobra.Command, ids []string) error {
			if named := len(ids) > 0; named == c.Flags().Changed("since") || named && c.Flags().Changed("type") {
				return errors.New("replay wants either the ids of events, or --since, with --type perhaps")
			}
			return nil
		},
		RunE: func(command *cobra.Command, ids []string) error {
			forwarder, _, err := p.forwarder(to, t)
			if err != nil {
				return err
			}
			return p.withClient(command.Context(), t, func(ctx context.Context, client *dispensary.Client) error {
				return p.replay(ctx, client, forwarder, ids, filter, to.local())
			})
		},
	}
	flags := command.Flags()
	t.define(flags)
	t.defineUser(flags)
	to.define(flags)
	filter.define(flags, 0)
	return command
}

// replay posts events, and fails where they are not acknowledged. With local they are signed
// with the secret of this machine, which only a receiver knows that was configured with it.
func (p *program) replay(ctx context.Context, client *dispensary.Client, forwarder *listen.Forwarder, ids []string, filter eventFilter, local bool) error {
	clinic, err := client.Clinic.Get(ctx)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		found, err := filter.find(ctx, client.Events)
		if err != nil {
			return err
		}
		for _, e := range found {
			ids = append(ids, e.ID)
		}
	}
	out, refused, help := &answers{p: p}, 0, ""
	for _, id := range ids {
		e, err := client.Events.Get(ctx, id)
		if err != nil {
			return errors.Join(err, out.end())
		}
		answer := forwarder.Forward(ctx, webhook.Key{Environment: client.Site().Environment, EventID: e.ID, IntegrationID: clinic.IntegrationID}, *e)
		if ctx.Err() != nil && answer.Err != nil {
			return errors.Join(maybeApplied{fmt.Errorf("event %s: %w", id, ctx.Err())}, out.end())
		}
		if answer.Err != nil {
			refused++
		}
		if local && answer.Status == http.StatusUnauthorized {
			help = ": a receiver that has the secret of the platform wants --configured; that of this machine is printed by listen"
		}
		out.add(answer)
	}
	if refused > 0 {
		return failed(errors.Join(fmt.Errorf("%d of %d events were not acknowledged%s", refused, len(ids), help), out.end()))
	}
	return out.end()
}
