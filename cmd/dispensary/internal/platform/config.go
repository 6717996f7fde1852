package platform

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	flag "github.com/spf13/pflag"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/httpserve"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// Config contains the flags of a fake platform. The zero value is ready for [Config.Define].
type Config struct {
	addr, controlAddr string
	expose, tls       bool
	certificate       string
	state             string
	seed              string     // as printed, empty if the platform comes from the state file
	kept              *stateFile // open and locked, or nil without --state
	tuning            dispensarytest.Tuning
	options           []dispensarytest.Option
}

// Complete checks the flags, opens the state file and adds the options that depend on several
// flags. Call it after parsing. It leaves other checks of values to [dispensarytest.Start].
func (c *Config) Complete(flags *flag.FlagSet) error {
	if err := checkAddresses(*c); err != nil {
		return err
	}
	if c.state != "" {
		if err := c.openState(flags); err != nil {
			return err
		}
	}
	if c.seed == "" && (c.kept == nil || c.kept.loaded == nil) {
		// Secrets from a fixed default seed would be the same everywhere.
		c.tuning.Seed = rand.Uint64()
		c.seed = strconv.FormatUint(c.tuning.Seed, 10)
	}
	c.tuning.Addr = c.addr
	c.options = append(c.options, dispensarytest.WithTuning(c.tuning))
	if c.tls {
		c.options = append(c.options, dispensarytest.WithTLS())
	}
	return nil
}

// StateFile returns the path of the state file with symbolic links resolved, or "" without
// --state.
func (c *Config) StateFile() string {
	if c.kept == nil {
		return ""
	}
	return c.kept.name
}

// worldFlags describe a new platform. They are rejected if the state file contains one.
var worldFlags = []string{"seed", "region", "size", "world", "scopes", "integrations"}

// openState opens the state file and starts from its platform, if it has one.
func (c *Config) openState(flags *flag.FlagSet) (err error) {
	if c.kept, err = openState(c.state); err != nil {
		return err
	}
	if c.kept.loaded == nil {
		return nil
	}
	c.options = append([]dispensarytest.Option{dispensarytest.WithSnapshot(c.kept.loaded)}, c.options...) // flags override the snapshot
	flags.Visit(func(f *flag.Flag) {
		if err == nil && slices.Contains(worldFlags, f.Name) {
			err = fmt.Errorf("--%s: %s already contains a platform: omit the flag, or use another file", f.Name, c.kept.name)
		}
	})
	if err != nil {
		_ = c.kept.lock.Close()
	}
	return err
}

// option defines a flag. parse converts its text to an option of the platform.
func (c *Config) option(flags *flag.FlagSet, name, help string, parse func(text string) (dispensarytest.Option, error)) {
	flags.Func(name, help, func(text string) error {
		option, err := parse(text)
		if err == nil {
			c.options = append(c.options, option)
		}
		return err
	})
}

// toggle defines a Boolean flag that needs no value.
func toggle(flags *flag.FlagSet, to *bool, name, help string) {
	flags.BoolFunc(name, help, func(text string) error {
		if text != "true" && text != "false" {
			return errors.New("must be true or false")
		}
		*to = text == "true"
		return nil
	})
}

// Define adds the flags to flags.
func (c *Config) Define(flags *flag.FlagSet) {
	flags.StringVar(&c.addr, "addr", "127.0.0.1:0", "`HOST:PORT` of the fake platform; port 0 selects a free port")
	flags.StringVar(&c.controlAddr, "control-addr", "127.0.0.1:0", "`HOST:PORT` of the console and control API, on loopback only; port 0 selects a free port")
	flags.BoolVar(&c.expose, "expose", false, "allow an --addr that other machines can reach")
	flags.BoolVar(&c.tls, "tls", false, "serve the fake platform over HTTPS with a new self-signed certificate")
	flags.StringVar(&c.certificate, "cert", "", "write the certificate of --tls to `FILE` (PEM), so that clients can trust it")
	flags.StringVar(&c.state, "state", "", "save all data in `FILE` within about a second, and load it at the next start; a reset restores the initial data")

	c.option(flags, "webhook", "register the webhook endpoint `URL` for all event types", func(url string) (dispensarytest.Option, error) {
		return dispensarytest.WithWebhook(url), nil
	})
	c.worldFlags(flags)
	c.ruleFlags(flags)
}

// worldFlags defines the flags that determine the data, the application and the environment.
func (c *Config) worldFlags(flags *flag.FlagSet) {
	flags.Func("seed", "`NUMBER` that determines ids, secrets and data (default random)", func(text string) error {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return errors.New("must be a whole number")
		}
		c.seed, c.tuning.Seed = strconv.FormatUint(seed, 10), seed
		return nil
	})
	choose(flags, "region", "`COUNTRY` of the fake platform: US or CA; default US", map[string]api.Environment{
		"US": api.USSandbox, "CA": api.CanadaSandbox,
	}, func(sandbox api.Environment) {
		c.options = append(c.options, dispensarytest.WithEnvironment(sandbox))
	})
	choose(flags, "size", "amount of data, a `WORD`: small or large; default small", map[string]model.WorldSize{
		"small": {}, "large": {Clinics: 10, Patients: 2_000, Products: 2_000, Plans: 2_000, Orders: 10_000},
	}, func(size model.WorldSize) { c.tuning.WorldSize = size })
	c.option(flags, "world", "start with the clinics, users, patients, products and plans in `FILE`, described below", func(name string) (dispensarytest.Option, error) {
		return dispensarytest.WithWorldFile(name), nil
	})
	c.option(flags, "redirect-uri", "`URL` to which the application's users return after authorizing", func(text string) (dispensarytest.Option, error) {
		return dispensarytest.WithRedirectURI(text), nil
	})
	c.option(flags, "scopes", "scopes of the application, a comma-separated `LIST` of the scopes below (default all)", func(text string) (dispensarytest.Option, error) {
		return dispensarytest.WithScopes(strings.Split(text, ",")...), nil
	})
	flags.Func("integrations", "`NUMBER` of integrations per clinic, 1 to 100; each gets its own copy of every event (default 1)", func(text string) error {
		n, err := strconv.Atoi(text)
		switch {
		case err != nil:
			return errors.New("must be a whole number")
		case n < 1:
			return errors.New("must be 1 to 100")
		}
		c.tuning.Integrations = n
		return nil
	})
}

// ruleFlags defines the flags for undocumented behaviors of the API, the clock and the journal.
func (c *Config) ruleFlags(flags *flag.FlagSet) {
	c.option(flags, "freeze", "freeze the clock at `TIME` (RFC 3339, or now) until a request advances it", func(text string) (dispensarytest.Option, error) {
		at := time.Now()
		if text != "now" {
			var err error
			if at, err = time.Parse(time.RFC3339, text); err != nil {
				return nil, errors.New("must be a time such as 2026-03-02T09:00:00Z, or now")
			}
		}
		return dispensarytest.WithClock(dispensarytest.FrozenClock(at)), nil
	})
	c.option(flags, "behavior", "set an undocumented behavior of the API to a variant, `NAME=VARIANT`; repeatable", func(text string) (dispensarytest.Option, error) {
		if !strings.Contains(text, "=") {
			return nil, errors.New("must be NAME=VARIANT, such as probe=before-each")
		}
		return dispensarytest.WithBehavior(behavior.Variant(text)), nil
	})
	c.option(flags, "behaviors", "set the behaviors to the results in `FILE`, written by dispensary probe", func(name string) (dispensarytest.Option, error) {
		return dispensarytest.WithBehaviorsFile(name), nil
	})
	toggle(flags, &c.tuning.Bodies, "bodies", "store request and response bodies without their tokens, and show them in the console")
	toggle(flags, &c.tuning.ClinicTokens, "clinic-tokens", "issue tokens for the clinic instead of the user, like an application created before 2021-08-26")
}

// choose defines a flag with fixed words. Its help must list them between ": " and ";".
func choose[T any](flags *flag.FlagSet, name, help string, words map[string]T, use func(T)) {
	flags.Func(name, help, func(text string) error {
		value, known := words[text]
		if !known {
			_, list, _ := strings.Cut(help, ": ")
			list, _, _ = strings.Cut(list, ";")
			return errors.New("must be " + list)
		}
		use(value)
		return nil
	})
}

// checkAddresses requires loopback for the platform unless --expose is set, and always for the
// control API.
func checkAddresses(c Config) error {
	host, _, err := net.SplitHostPort(c.addr)
	if err != nil {
		return fmt.Errorf("--addr %s: must be HOST:PORT", c.addr)
	}
	control, _, err := net.SplitHostPort(c.controlAddr)
	ip := net.ParseIP(host)
	switch {
	case err != nil:
		return fmt.Errorf("--control-addr %s: must be HOST:PORT", c.controlAddr)
	case !httpserve.Loopback(control):
		return fmt.Errorf("--control-addr %s: must be a loopback address", c.controlAddr)
	case !httpserve.Loopback(host) && !c.expose:
		return fmt.Errorf("--addr %s: other machines can reach this address: add --expose to allow it", c.addr)
	case host == "", ip != nil && ip.IsUnspecified():
		return fmt.Errorf("--addr %s: use the address by which other machines reach this one, because the platform's links contain it", c.addr)
	case c.certificate != "" && !c.tls:
		return errors.New("--cert: add --tls, because only --tls creates a certificate")
	}
	return nil
}

const help = `Fake runs a fake dispensary platform until Ctrl-C: its API, a console for your browser
and a control API for tests. It prints their URLs once they accept requests.
`

var worldHelp = `
The clinics, users, patients and plans in a --world file replace the default ones. Its products
are added to the default catalog:

  ` + strings.ReplaceAll(dispensarytest.WorldFileExample, "\n", "\n  ") + `

If the file has several clinics, set "clinic" of each user and patient to the name of one. Use
--seed to get the same ids at each start.
`

// Help returns the long help text, with the names for --scopes and --behavior.
func Help() string {
	var out strings.Builder
	out.WriteString(help)
	out.WriteString(worldHelp)
	fmt.Fprint(&out, "\nScopes:\n\n")
	for names := range slices.Chunk(operation.Scopes(), 4) {
		fmt.Fprintf(&out, "  %s\n", strings.Join(names, ", "))
	}
	fmt.Fprint(&out, "\nUndocumented behaviors of the API with their variants. The first variant is the default. The console\nexplains each on its page \"Behaviors\":\n\n")
	table := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	for _, s := range behavior.Choices() {
		var variants []string
		for _, v := range s.Variants {
			variants = append(variants, v.Name())
		}
		fmt.Fprintf(table, "  %s\t%s\n", s.Name, strings.Join(variants, ", "))
	}
	_ = table.Flush()
	return out.String()
}
