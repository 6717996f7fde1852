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

// group adds children to parent, which only shows help when it is called itself.
func group(parent *cobra.Command, children ...*cobra.Command) {
	parent.AddCommand(children...)
	parent.Args = cobra.ArbitraryArgs // RunE rejects them with a suggestion
	parent.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(c, args[0])
		}
		c.SetOut(c.ErrOrStderr())
		return errors.Join(c.Help(), errHelp)
	}
}

// errHelp is the error of a missing command, after help was shown.
var errHelp = errors.New("command is missing")

// unknownCommand returns the error of a command that does not exist, with a suggestion.
func unknownCommand(parent *cobra.Command, name string) error {
	err := fmt.Errorf("unknown command %q", name)
	parent.SuggestionsMinimumDistance = 2
	if near := parent.SuggestionsFor(name); len(near) > 0 {
		err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(near, " or "))
	}
	return err
}

// noArguments rejects arguments.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s accepts no arguments: remove %q", c.Name(), args[0])
}

// asFlags returns err with field names replaced by flags, as in names. It returns err unchanged
// if any part of it is not an [*api.ArgumentError].
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

// flagError returns the error of a flag. It explains a long flag with one dash, and suggests a
// similar flag for an unknown one.
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

// nearestFlag returns the visible flag of a command that is most similar to name, or "".
func nearestFlag(c *cobra.Command, name string) string {
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	return closestmatch.To(name, known)
}
