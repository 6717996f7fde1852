package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newHelpCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		Long: `Help shows the description of a command, its flags and examples. With --json it also describes
all commands below the command, for scripts and coding agents.

Exit codes: 0 on success. 2 if the command does not exist.`,
		Example: `  dispensary help
  dispensary help catalog sync
  dispensary help --json`,
		RunE: func(c *cobra.Command, args []string) error {
			topic, rest, err := c.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return unknownCommand(topic, rest[0])
			}
			topic.InitDefaultHelpFlag()
			if p.json {
				return p.printJSON(manualOf(topic))
			}
			return topic.Help()
		},
	}
}

func init() { cobra.AddTemplateFunc("fit", fit) }

// fit breaks the paragraphs of a text into lines of up to columns characters. Other lines begin with
// white space, and stay.
func fit(text string, columns int) string {
	var lines []string
	line := ""
	for _, given := range append(strings.Split(text, "\n"), "") {
		if running := given != "" && given[0] != ' '; running {
			for word := range strings.FieldsSeq(given) {
				if line != "" && len(line)+1+len(word) > columns {
					lines, line = append(lines, line), ""
				}
				line = strings.TrimPrefix(line+" "+word, " ")
			}
			continue
		}
		if line != "" {
			lines, line = append(lines, line), ""
		}
		lines = append(lines, given)
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// manual describes a command.
type manual struct {
	Command  string       `json:"command"` // as in "dispensary catalog sync"
	Usage    string       `json:"usage"`
	Short    string       `json:"short"`
	Long     string       `json:"long"`
	Example  string       `json:"example,omitempty"`
	Flags    []flagManual `json:"flags"`
	Commands []manual     `json:"commands,omitempty"`
}

// flagManual describes a flag. Value is the placeholder of the flag's value, or "" for a Boolean
// flag.
type flagManual struct {
	Name    string `json:"name"`
	Value   string `json:"value,omitempty"`
	Default string `json:"default,omitempty"`
	Text    string `json:"text"`
}

// manualOf returns the manual of a command and of the visible commands below it. Only the manual
// of the root contains the flags of all commands.
func manualOf(c *cobra.Command) manual {
	m := manual{Command: c.CommandPath(), Usage: c.UseLine(), Short: c.Short, Long: c.Long, Example: c.Example, Flags: []flagManual{}}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, text := pflag.UnquoteUsage(f)
		one := flagManual{Name: "--" + f.Name, Value: value, Text: text}
		if value != "" {
			one.Default = strings.Trim(f.DefValue, "[]")
		}
		m.Flags = append(m.Flags, one)
	})
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() {
			m.Commands = append(m.Commands, manualOf(child))
		}
	}
	return m
}
