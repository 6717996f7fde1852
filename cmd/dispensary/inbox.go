package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	flag "github.com/spf13/pflag"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// defaultMost is how many dead letters a command prints or changes at most.
const defaultMost = 1000

// deadFilter is what the flags say about dead letters.
type deadFilter struct {
	kind, clinic, reason, from, before string
	most                               int
}

func (f *deadFilter) define(flags *flag.FlagSet) {
	flags.StringVar(&f.kind, "type", "", "only events of this `TYPE`, such as order.placed")
	flags.StringVar(&f.clinic, "clinic", "", "only events of the clinic `ID`")
	flags.StringVar(&f.reason, "reason", "", "only those that failed for this `REASON`, as it is listed")
	flags.StringVar(&f.from, "from", "", "only those that arrived at `TIME` (RFC 3339) or later")
	flags.StringVar(&f.before, "before", "", "only those that arrived before `TIME` (RFC 3339)")
	flags.IntVar(&f.most, "max", defaultMost, "`NUMBER` of events at most, the oldest first")
}

// filter makes a filter of the flags, and of keys.
func (f deadFilter) filter(keys []string) (made engine.Filter, err error) {
	made = engine.Filter{States: []engine.State{engine.StateDead}, Type: events.Type(f.kind), ClinicID: f.clinic, Reason: f.reason}
	for _, bound := range []struct {
		flag, text string
		at         *time.Time
	}{{"--from", f.from, &made.ReceivedFrom}, {"--before", f.before, &made.ReceivedBefore}} {
		if bound.text == "" {
			continue
		}
		if *bound.at, err = time.Parse(time.RFC3339, bound.text); err != nil {
			return made, fmt.Errorf("%s: not a time such as 2026-03-02T09:00:00Z", bound.flag)
		}
	}
	if f.most < 1 {
		return made, errors.New("--max: at least 1")
	}
	for _, text := range keys {
		var key webhook.Key
		if err := key.UnmarshalText([]byte(text)); err != nil {
			return made, fmt.Errorf("%q is no key of an event, as inbox dead lists them", text)
		}
		made.Keys = append(made.Keys, key)
	}
	if len(made.Keys) > f.most {
		return made, fmt.Errorf("--max: %d keys are more than %d", len(made.Keys), f.most)
	}
	return made, nil
}

func (p *program) inboxCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "inbox",
		Short: "See what waits in an inbox, and replay or discard what was given up",
		Long: `Inbox works with the events of webhooks in the configured inbox, on SQLite or PostgreSQL,
beside the processes that have it open. It reads no bodies, and needs no keys.`,
		Example: `  dispensary inbox stats
  dispensary inbox dead --type order.placed
  dispensary inbox replay --all --dry-run`,
	}
	group(command, p.inboxStatsCommand(), p.inboxDeadCommand(),
		p.inboxChangeCommand(change{
			name: "replay", short: "Handle dead letters again",
			long: `Replay has dead letters handled again, with as many attempts as new events: by the program
that has the inbox open, within a minute, or after its next start.`,
			do: integration.Maintenance.Replay,
		}),
		p.inboxChangeCommand(change{
			name: "discard", short: "Drop dead letters for good",
			long: `Discard drops dead letters for good, bodies included. They are not handled, also if the
platform sends them once more.`,
			do: integration.Maintenance.Discard,
		}))
	return command
}

// withInbox opens the configured inbox for a function.
func (p *program) withInbox(ctx context.Context, writes bool, do func(integration.Maintenance) error) error {
	c, err := p.loadConfig("inbox")
	if err != nil {
		return err
	}
	for _, a := range c.Applications {
		if err := p.allowWriting(a.Site.Environment); err != nil && writes {
			return err
		}
	}
	inbox, err := integration.OpenMaintenance(ctx, c)
	if err != nil {
		return err
	}
	return errors.Join(do(inbox), failed(inbox.Close(context.WithoutCancel(ctx))))
}

func (p *program) inboxStatsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stats",
		Short: "Count what waits, runs and was given up",
		Long:  "Stats counts the events that wait, are being handled, and were given up, and says how old the oldest is.",
		Example: `  dispensary inbox stats
  dispensary inbox stats --json --profile staging
  watch -n 10 dispensary inbox stats`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return p.withInbox(command.Context(), false, func(inbox integration.Maintenance) error {
				s, err := inbox.Stats(command.Context())
				if err != nil {
					return failed(err)
				}
				document := struct {
					Waiting int       `json:"waiting"`
					Running int       `json:"running"`
					Dead    int       `json:"dead"`
					Oldest  time.Time `json:"oldest,omitzero"`
				}{s.Waiting, s.Running, s.Dead, s.Oldest}
				return p.print(document, []string{"WAITING", "RUNNING", "DEAD", "OLDEST"},
					[][]string{{strconv.Itoa(s.Waiting), strconv.Itoa(s.Running), strconv.Itoa(s.Dead), timeText(s.Oldest)}})
			})
		},
	}
}

// deadLetter is one as it is printed.
type deadLetter struct {
	Key        webhook.Key `json:"key"`
	Type       events.Type `json:"type"`
	ClinicID   string      `json:"clinic_id"`
	Reason     string      `json:"reason"`
	Attempts   int         `json:"attempts"`
	CreatedAt  time.Time   `json:"created_at,omitzero"`
	ReceivedAt time.Time   `json:"received_at"`
	GivenUpAt  time.Time   `json:"given_up_at"`
}

func (p *program) inboxDeadCommand() *cobra.Command {
	var f deadFilter
	command := &cobra.Command{
		Use:   "dead [KEY...]",
		Short: "List the events that were given up",
		Long:  "Dead lists dead letters, those first that were given up first. Their bodies are not read.",
		Example: `  dispensary inbox dead
  dispensary inbox dead --type order.placed --from 2026-03-02T00:00:00Z
  dispensary inbox dead --json | jq -r .reason | sort | uniq -c`,
		RunE: func(command *cobra.Command, keys []string) error {
			filter, err := f.filter(keys)
			if err != nil {
				return err
			}
			return p.withInbox(command.Context(), false, func(inbox integration.Maintenance) error {
				return failed(p.printDead(command.Context(), inbox, filter, f.most))
			})
		},
	}
	f.define(command.Flags())
	return command
}

// printDead prints up to most dead letters, with --json as they are read. It reports on the
// standard error if there are more.
func (p *program) printDead(ctx context.Context, inbox integration.Maintenance, f engine.Filter, most int) error {
	const page = 100
	var rows [][]string
	n := 0
	for after := (engine.Position{}); n < most; {
		read, err := inbox.List(ctx, f, after, min(page, most-n))
		if err != nil {
			return err
		}
		for _, e := range read {
			after, n = e.Position, n+1
			if !p.json {
				rows = append(rows, []string{e.Key.String(), string(e.Type), e.ClinicID, timeText(e.ReceivedAt), timeText(e.Position.At), strconv.Itoa(e.Attempts), e.Reason})
				continue
			}
			if err := p.printJSON(deadLetter{e.Key, e.Type, e.ClinicID, e.Reason, e.Attempts, e.CreatedAt, e.ReceivedAt, e.Position.At}); err != nil {
				return err
			}
		}
		if len(read) < page {
			break
		}
	}
	if n == most {
		all, err := inbox.Count(ctx, f, 0)
		if err != nil {
			return err
		}
		if all.Total > n {
			fmt.Fprintf(p.errOut, "%d of %d dead letters are listed; see --max\n", n, all.Total)
		}
	}
	if p.json {
		return nil
	}
	return p.print(nil, []string{"KEY", "TYPE", "CLINIC", "RECEIVED", "GIVEN UP", "ATTEMPTS", "REASON"}, rows)
}

// change is what can be done with dead letters.
type change struct {
	name, short, long string
	do                func(integration.Maintenance, context.Context, engine.Filter) (int, error)
}

// changeReport is what a change prints.
type changeReport struct {
	DryRun  bool           `json:"dry_run"`
	Matched int            `json:"matched"` // by the filter
	Changed int            `json:"changed"` // of these; with --dry-run those that would be
	Types   map[string]int `json:"types"`
	Clinics map[string]int `json:"clinics"`
	Reasons map[string]int `json:"reasons"`
}

func (p *program) inboxChangeCommand(c change) *cobra.Command {
	var f deadFilter
	var all, dry bool
	command := &cobra.Command{
		Use:   c.name + " [KEY...]",
		Short: c.short,
		Long: c.long + `

It wants keys, as inbox dead lists them, or a filter, or --all. With --dry-run it only counts,
and otherwise counts what it does; nothing that dies meanwhile is changed. An interrupted run
is resumed by the same command.`,
		Example: fmt.Sprintf(`  dispensary inbox %[1]s --type order.placed --dry-run
  dispensary inbox %[1]s --reason "permanent" --max 50
  dispensary inbox %[1]s us/sandbox/evt_1/in_1`, c.name),
		RunE: func(command *cobra.Command, keys []string) error {
			filter, err := f.filter(keys)
			if err != nil {
				return err
			}
			narrowed := len(keys) > 0 || f.kind+f.clinic+f.reason+f.from+f.before != ""
			if narrowed == all {
				return fmt.Errorf("%s wants keys or a filter, or else --all", c.name)
			}
			return p.withInbox(command.Context(), !dry, func(inbox integration.Maintenance) error {
				return failed(p.changeDead(command.Context(), inbox, c, filter, f.most, dry))
			})
		},
	}
	f.define(command.Flags())
	command.Flags().BoolVar(&all, "all", false, "all dead letters, up to --max")
	command.Flags().BoolVar(&dry, "dry-run", false, "count what would be changed, and change nothing")
	return command
}

// changeDead changes dead letters, and says how many.
func (p *program) changeDead(ctx context.Context, inbox integration.Maintenance, c change, f engine.Filter, most int, dry bool) error {
	matched, err := inbox.Count(ctx, f, 0)
	if err != nil {
		return err
	}
	counts := matched
	if matched.Total > most {
		if counts, err = inbox.Count(ctx, f, most); err != nil {
			return err
		}
	}
	report := changeReport{DryRun: dry, Matched: matched.Total, Changed: counts.Total, Types: map[string]int{}, Clinics: counts.Clinics, Reasons: counts.Reasons}
	for kind, n := range counts.Types {
		report.Types[string(kind)] = n
	}
	if report.Clinics == nil {
		report.Clinics, report.Reasons = map[string]int{}, map[string]int{}
	}
	if !dry && counts.Total > 0 {
		f.Until = counts.Until
		report.Changed, err = c.do(inbox, ctx, f)
	}
	return errors.Join(p.printChange(c, report), err)
}

func (p *program) printChange(c change, r changeReport) error {
	what := c.name
	if r.DryRun {
		what += ", dry run"
	}
	rows := [][]string{{what, strconv.Itoa(r.Changed), "of " + strconv.Itoa(r.Matched)}}
	for _, by := range []struct {
		name   string
		counts map[string]int
	}{{"type", r.Types}, {"clinic", r.Clinics}, {"reason", r.Reasons}} {
		for _, text := range slices.Sorted(maps.Keys(by.counts)) {
			rows = append(rows, []string{by.name, strconv.Itoa(by.counts[text]), text})
		}
	}
	return p.print(r, []string{"WHAT", "COUNT", ""}, rows)
}
