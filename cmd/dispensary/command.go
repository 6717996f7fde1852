package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
	"github.com/dispensary-go/dispensary/internal/joined"
)

// group makes a command that only has others below it.
func group(parent *cobra.Command, children ...*cobra.Command) {
	parent.AddCommand(children...)
	parent.Args = cobra.ArbitraryArgs // so that it is us who refuse them
	parent.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(c, args[0])
		}
		c.SetOut(c.ErrOrStderr())
		return errors.Join(c.Help(), errHelp)
	}
}

// errHelp says that a command was missing, and that help was shown.
var errHelp = errors.New("a command is missing")

func unknownCommand(parent *cobra.Command, name string) error {
	err := fmt.Errorf("there is no command %q", name)
	parent.SuggestionsMinimumDistance = 2
	if near := parent.SuggestionsFor(name); len(near) > 0 {
		err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(near, " or "))
	}
	return err
}

// noArguments refuses arguments.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s takes no arguments, but there is %q", c.Name(), args[0])
}

// asFlags returns the error of rejected arguments with the names that the command line has
// for their fields. It returns any other error as it is.
func asFlags(err error, names map[string]string) error {
	var texts []string
	for _, part := range joined.Errors(err) {
		var argument *api.ArgumentError
		if !errors.As(part, &argument) {
			return err
		}
		field, index, _ := strings.Cut(argument.Field, "[")
		if index != "" {
			index = "[" + index
		}
		texts = append(texts, cmp.Or(names[field], field)+index+" "+argument.Reason)
	}
	if len(texts) == 0 {
		return nil
	}
	return errors.New(strings.Join(texts, ", "))
}

// flagError returns the error of a flag. It explains a long flag with one dash, and suggests the
// flag that an unknown one stands for.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		written := unknown.GetSpecifiedShortnames()
		name, _, _ := strings.Cut(written, "=")
		if c.Flags().Lookup(name) != nil {
			return fmt.Errorf("-%s: long flags have two dashes, --%s", name, name)
		}
		if near := nearestFlag(c, unknown.GetSpecifiedName()); near != "" {
			return fmt.Errorf("%w: did you mean --%s?", err, near)
		}
	}
	return err
}

// nearestFlag returns the flag of a command that a name stands for, or "".
func nearestFlag(c *cobra.Command, name string) string {
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	return closestmatch.To(name, known)
}
