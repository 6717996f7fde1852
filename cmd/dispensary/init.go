package main

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/starter"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/terminal"
)

// initCommand is the command with its flags.
type initCommand struct {
	*program
	module, library string
}

func newInitCommand(p *program) *cobra.Command {
	c := initCommand{program: p}
	command := &cobra.Command{
		Use:   "init DIR",
		Short: "Create a program that integrates the dispensary",
		Long: `Init writes a small program with tests and a CI job into the folder DIR. Its users connect in
the browser. It receives webhooks, recovers events whose webhooks were lost, and has a page on
which operators replay failed events. Extend it, and replace the functions in login.go.

Init creates DIR if it does not exist. If any of its files exists there, init lists them and
writes no file. It sends no request. At the end it prints the commands that download the library,
test the program, and run it with a fake platform.

The program uses the library in the version of this command. If the command was built in a clone
of the library, its version is not released: set --library to the folder of the clone.

Exit codes: 0 if the program is written. 1 if the program is written but not announced. 2 if init
wrote no file.`,
		Example: `  dispensary init ehr
  dispensary init ehr --module example.com/clinics/ehr
  dispensary init . --json
  dispensary init ehr --library ../dispensary`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("init needs the name of one folder, such as ehr")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return c.run(args[0]) },
	}
	flags := command.Flags()
	flags.StringVar(&c.module, "module", "", "module `PATH` of the program (default: the name of DIR)")
	flags.StringVar(&c.library, "library", "", "use the clone of the library in `FOLDER` instead of a release")
	return command
}

// created is the JSON document of init.
type created struct {
	Directory string   `json:"directory"`
	Module    string   `json:"module"`
	Files     []string `json:"files"`
	Next      []string `json:"next"`
}

// run writes the program and prints the next commands.
func (c *initCommand) run(folder string) error {
	module, err := c.modulePath(folder)
	if err != nil {
		return err
	}
	files, err := starter.Config{Module: module, Version: dispensary.Version(), Clone: c.library}.Files()
	switch {
	case errors.Is(err, starter.ErrNotReleased):
		return fmt.Errorf("--library is required, because the version of this command %w: use a clone of the library", err)
	case err != nil:
		return fmt.Errorf("--library: %w", err)
	}
	var exist *starter.ExistError
	if err := starter.Write(folder, files); errors.As(err, &exist) {
		return fmt.Errorf("%w, so init wrote no file: use another folder", err)
	} else if err != nil {
		return err
	}
	next := nextCommands(folder)
	if c.library != "" { // this command may not be installed
		next = append([]string{"go install -C " + shellWord(c.library) + " ./cmd/dispensary"}, next...)
	}
	return failed(c.announce(created{filepath.Clean(folder), module, slices.Sorted(maps.Keys(files)), next}))
}

// modulePath returns the module path of the program: --module, or the name of the folder.
func (c *initCommand) modulePath(folder string) (string, error) {
	if c.module != "" {
		if err := starter.CheckModule(c.module); err != nil {
			return "", fmt.Errorf("--module: %w", err)
		}
		return c.module, nil
	}
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	name := filepath.Base(absolute)
	if err := starter.CheckModule(name); err != nil {
		return "", fmt.Errorf("--module is required, such as example.com/ehr, because the name of DIR is not a module path: %w", err)
	}
	return name, nil
}

// announce prints the files and the next commands.
func (c *initCommand) announce(made created) error {
	if c.json {
		return c.printJSON(made)
	}
	_, err := fmt.Fprintf(c.out, "Created in %s:\n  %s\n\nNext:\n  %s\n", made.Directory, strings.Join(made.Files, "\n  "), strings.Join(made.Next, "\n  "))
	return err
}

// nextCommands returns the shell commands that test and run the program in a folder.
func nextCommands(folder string) []string {
	commands := []string{
		"go mod tidy",
		"go test ./...",
		"dispensary dev --redirect-uri http://127.0.0.1:8080/dispensary/callback --webhook http://127.0.0.1:8080/webhooks/us-sandbox -- go run .",
	}
	folder = filepath.Clean(folder)
	if folder == "." {
		return commands
	}
	if strings.HasPrefix(folder, "-") {
		folder = "./" + folder
	}
	return append([]string{"cd " + shellWord(folder)}, commands...)
}

// plainWord matches a word without special characters for a shell.
var plainWord = regexp.MustCompile(`^[\w./:@%+,-]+$`)

// shellWord quotes a word for a shell if it needs quotes.
func shellWord(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return terminal.Quote(word)
}
