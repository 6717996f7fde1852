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

// Config is what the flags say.
type Config struct {
	addr, controlAddr string
	expose, tls       bool
	certificate       string
	state             string
	seed              string     // as it is printed; empty where a state file has one
	kept              *stateFile // open, with --state
	tuning            dispensarytest.Tuning
	options           []dispensarytest.Option
}

// Complete checks the flags, opens the state file, and adds the options that follow from
// flags together. What the platform refuses about them, it says itself.
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
		// Secrets that follow from a seed which is the same everywhere are none.
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

// StateFile returns the path of the state file, with links resolved, or "" without --state.
func (c *Config) StateFile() string {
	if c.kept == nil {
		return ""
	}
	return c.kept.name
}

// worldFlags make a platform; they are refused where a state file has one.
var worldFlags = []string{"seed", "region", "size", "world", "scopes", "integrations"}

// openState begins with the platform of the state file.
func (c *Config) openState(flags *flag.FlagSet) (err error) {
	if c.kept, err = openState(c.state); err != nil {
		return err
	}
	if c.kept.loaded == nil {
		return nil
	}
	c.options = append([]dispensarytest.Option{dispensarytest.WithSnapshot(c.kept.loaded)}, c.options...) // flags have the last word
	flags.Visit(func(f *flag.Flag) {
		if err == nil && slices.Contains(worldFlags, f.Name) {
			err = fmt.Errorf("--%s: there is a platform in %s already; leave the flag out, or name another file", f.Name, c.kept.name)
		}
	})
	if err != nil {
		_ = c.kept.lock.Close()
	}
	return err
}

// option defines a flag whose text turns into an option of the platform.
func (c *Config) option(flags *flag.FlagSet, name, help string, parse func(text string) (dispensarytest.Option, error)) {
	flags.Func(name, help, func(text string) error {
		option, err := parse(text)
		if err == nil {
			c.options = append(c.options, option)
		}
		return err
	})
}

// toggle defines a flag that is true by being there.
func toggle(flags *flag.FlagSet, to *bool, name, help string) {
	flags.BoolFunc(name, help, func(text string) error {
		if text != "true" && text != "false" {
			return errors.New("true or false")
		}
		*to = text == "true"
		return nil
	})
}

// Define defines the flags.
func (c *Config) Define(flags *flag.FlagSet) {
	flags.StringVar(&c.addr, "addr", "127.0.0.1:0", "`HOST:PORT` of the platform; port 0 is a free one")
	flags.StringVar(&c.controlAddr, "control-addr", "127.0.0.1:0", "`HOST:PORT` of console and control API; always loopback")
	flags.BoolVar(&c.expose, "expose", false, "let --addr be an address that other machines reach")
	flags.BoolVar(&c.tls, "tls", false, "serve the platform over HTTPS, with a new self-signed certificate")
	flags.StringVar(&c.certificate, "cert", "", "write that certificate to `FILE` (PEM), for clients to trust")
	flags.StringVar(&c.state, "state", "", "keep the platform in `FILE`, about a second behind; a reset goes back to the start")

	c.option(flags, "webhook", "register the webhook endpoint `URL`, for all event types", func(url string) (dispensarytest.Option, error) {
		return dispensarytest.WithWebhook(url), nil
	})
	c.worldFlags(flags)
	c.ruleFlags(flags)
}

// worldFlags define the flags that say which platform it is.
func (c *Config) worldFlags(flags *flag.FlagSet) {
	flags.Func("seed", "`NUMBER` that ids, secrets and data follow from; random unless set", func(text string) error {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return errors.New("not a whole number")
		}
		c.seed, c.tuning.Seed = strconv.FormatUint(seed, 10), seed
		return nil
	})
	choose(flags, "region", "the platform's `COUNTRY`: US or CA; US unless set", map[string]api.Environment{
		"US": api.USSandbox, "CA": api.CanadaSandbox,
	}, func(sandbox api.Environment) {
		c.options = append(c.options, dispensarytest.WithEnvironment(sandbox))
	})
	choose(flags, "size", "how much the world holds, a `WORD`: small or large; small unless set", map[string]model.WorldSize{
		"small": {}, "large": {Clinics: 10, Patients: 2_000, Products: 2_000, Plans: 2_000, Orders: 10_000},
	}, func(size model.WorldSize) { c.tuning.WorldSize = size })
	c.option(flags, "world", "start with the clinics, people, products and plans of `FILE`, see below", func(name string) (dispensarytest.Option, error) {
		return dispensarytest.WithWorldFile(name), nil
	})
	c.option(flags, "redirect-uri", "`URL` that the application's users come back to", func(text string) (dispensarytest.Option, error) {
		return dispensarytest.WithRedirectURI(text), nil
	})
	c.option(flags, "scopes", "the application's scopes, a `LIST` with commas, see below; all unless set", func(text string) (dispensarytest.Option, error) {
		return dispensarytest.WithScopes(strings.Split(text, ",")...), nil
	})
	flags.Func("integrations", "`NUMBER` of integrations the clinic has, each with its own copy of every event", func(text string) error {
		n, err := strconv.Atoi(text)
		switch {
		case err != nil:
			return errors.New("not a whole number")
		case n < 1:
			return errors.New("a clinic has 1 to 100")
		}
		c.tuning.Integrations = n
		return nil
	})
}

// ruleFlags say how the platform behaves where the API leaves points open.
func (c *Config) ruleFlags(flags *flag.FlagSet) {
	c.option(flags, "freeze", "let the clock stand at `TIME` (RFC 3339, or now) until it is advanced", func(text string) (dispensarytest.Option, error) {
		at := time.Now()
		if text != "now" {
			var err error
			if at, err = time.Parse(time.RFC3339, text); err != nil {
				return nil, errors.New("not a time such as 2026-03-02T09:00:00Z")
			}
		}
		return dispensarytest.WithClock(dispensarytest.FrozenClock(at)), nil
	})
	c.option(flags, "behavior", "how a point is decided that the API leaves open, `NAME=VARIANT`; may be repeated", func(text string) (dispensarytest.Option, error) {
		if !strings.Contains(text, "=") {
			return nil, errors.New("not of the form NAME=VARIANT, such as probe=before-each")
		}
		return dispensarytest.WithBehavior(behavior.Variant(text)), nil
	})
	c.option(flags, "behaviors", "behave as the sandbox that dispensary probe wrote `FILE` about", func(name string) (dispensarytest.Option, error) {
		return dispensarytest.WithBehaviorsFile(name), nil
	})
	toggle(flags, &c.tuning.Bodies, "bodies", "let the console show the bodies of requests and answers; tokens are left out")
	toggle(flags, &c.tuning.ClinicTokens, "clinic-tokens", "let tokens stand for the clinic, as with applications from before 2021-08-26")
}

// choose defines a flag with a few words to choose from.
func choose[T any](flags *flag.FlagSet, name, help string, words map[string]T, use func(T)) {
	flags.Func(name, help, func(text string) error {
		value, known := words[text]
		if !known {
			_, list, _ := strings.Cut(help, ": ")
			list, _, _ = strings.Cut(list, ";")
			return errors.New("one of " + list)
		}
		use(value)
		return nil
	})
}

// checkAddresses keeps the platform on this machine unless --expose is set, and the
// control API in any case.
func checkAddresses(c Config) error {
	host, _, err := net.SplitHostPort(c.addr)
	if err != nil {
		return fmt.Errorf("--addr %s: not of the form HOST:PORT", c.addr)
	}
	control, _, err := net.SplitHostPort(c.controlAddr)
	ip := net.ParseIP(host)
	switch {
	case err != nil:
		return fmt.Errorf("--control-addr %s: not of the form HOST:PORT", c.controlAddr)
	case !httpserve.Loopback(control):
		return fmt.Errorf("--control-addr %s: console and control API stay on loopback", c.controlAddr)
	case !httpserve.Loopback(host) && !c.expose:
		return fmt.Errorf("--addr %s: other machines would reach it; add --expose if they should", c.addr)
	case host == "", ip != nil && ip.IsUnspecified():
		return fmt.Errorf("--addr %s: name the address that others reach, because the platform gives it out in links", c.addr)
	case c.certificate != "" && !c.tls:
		return errors.New("--cert: add --tls, which is what makes a certificate")
	}
	return nil
}

const help = `Fake runs a test platform of the dispensary until Ctrl-C: its API, a console for people
in a browser, and a control API for tests. It prints where they stand once they answer.
`

const worldHelp = `
A file for --world contains only your clinics and people, beside the default catalog:

  {
    "clinics":       [{"name": "Two Rivers", "discount": 10}],
    "practitioners": [{"first_name": "Ada", "last_name": "Stone", "email": "ada@ehr.example",
                       "type": "ND", "password": "…"}],
    "staff":         [{"first_name": "Joan", "last_name": "Reed", "email": "desk@ehr.example"}],
    "patients":      [{"first_name": "Max", "last_name": "Test", "email": "max@example.org",
                       "date_of_birth": "1984-03-12", "gender": "male", "discount": 5,
                       "mobile_number": "+15035550123", "metadata_id": "ehr-1"}],
    "products":      [{"name": "Own Blend", "brand": "Own", "price": "19.99", "units": 60}],
    "plans":         [{"patient": "max@example.org", "practitioner": "ada@ehr.example",
                       "state": "draft", "metadata_id": "plan-1",
                       "products": [{"product": "Own Blend", "units": 2, "refill": true}]}]
  }

With several clinics, "clinic" of a person is the name of one. --seed keeps ids the same.
`

// Help is the long help, with what --scopes and --behavior can name.
func Help() string {
	var out strings.Builder
	out.WriteString(help)
	out.WriteString(worldHelp)
	fmt.Fprint(&out, "\nScopes:\n\n")
	for names := range slices.Chunk(operation.Scopes(), 4) {
		fmt.Fprintf(&out, "  %s\n", strings.Join(names, ", "))
	}
	fmt.Fprint(&out, "\nPoints that the API leaves open, with their variants, of which the first is the default;\nwhat each means is on the console's page \"Open points\":\n\n")
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
