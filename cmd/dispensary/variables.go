package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	flag "github.com/spf13/pflag"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/environ"
	"github.com/dispensary-go/dispensary/seal"
)

// variables returns the environment variables, by name, of a program that uses a fake platform.
// state is the platform's state file, or "". It omits storage and keys that the environment sets.
func (p *program) variables(platform *dispensarytest.Server, settings control.Settings, state string) (map[string]string, error) {
	environment := platform.Site().Environment
	baseURL, _ := environ.Variables(environment)
	values := map[string]string{
		// With several clinics the application has no clinic key. The empty value replaces a key
		// in the environment.
		strings.TrimSuffix(baseURL, "BASE_URL") + "CLINIC_KEY": "",

		environmentVariable: environment.String(), clinicKeyVariable: settings.ClinicKey,
		tokenVariable: platform.Tokens.Issue(model.User{}).AccessToken, controlVariable: settings.ControlURL,
	}
	for _, variable := range platform.Variables() {
		name, value, _ := strings.Cut(variable, "=")
		values[name] = value
	}
	if !p.isSet(sealKeysVariable) {
		keys, err := p.keys(state)
		if err != nil {
			return nil, err
		}
		values[sealKeysVariable] = keys.Reveal()
	}
	for name, value := range map[string]string{
		storeVariable: inMemory, inboxVariable: inMemory, "DISPENSARY_STATE_KEYS": rand.Text() + rand.Text(),
	} {
		if !p.isSet(name) {
			values[name] = value
		}
	}
	return values, nil
}

// Variables of storage and its encryption keys.
const (
	storeVariable    = "DISPENSARY_STORE"
	inboxVariable    = "DISPENSARY_INBOX"
	sealKeysVariable = "DISPENSARY_SEAL_KEYS"
)

// inMemory is the address of a store or an inbox that ends with its process.
const inMemory = "memory:"

// isSet reports whether a variable has a value, or the name of a file with its value.
func (p *program) isSet(name string) bool {
	return p.lookup(name)+p.lookup(name+"_FILE") != ""
}

// keys returns the encryption keys for the program's storage. With a state file it reads or creates
// them in a file beside it. Otherwise it returns a key for this run, and rejects storage that
// outlives this run.
func (p *program) keys(state string) (dispensary.Secret, error) {
	name := state + ".seal.key"
	if state != "" {
		if kept, err := readKeys(name); !kept.IsZero() || err != nil {
			return kept, err
		}
	}
	for _, storage := range []string{storeVariable, inboxVariable} {
		if at := p.lookup(storage); state == "" && p.isSet(storage) && at != inMemory {
			return dispensary.Secret{}, fmt.Errorf("%s outlives this run, but its encryption key does not: add --state, or set %s", storage, sealKeysVariable)
		}
	}
	key, err := seal.GenerateKey("dev")
	if err == nil && state != "" {
		err = writeKey(name, key)
	}
	return key.Text(), err
}

// envFile is the path of a file for environment variables, or "" for no file.
type envFile string

func (f *envFile) define(flags *flag.FlagSet) {
	flags.StringVar((*string)(f), "env", "", "write the environment variables for your program to `FILE`, such as .env.fake")
}

// envHeader is the first line of each file of [envFile].
const envHeader = "# Written by dispensary, which replaces this file.\n"

// check rejects an existing file without envHeader.
func (f envFile) check() error {
	if f == "" {
		return nil
	}
	about, err := os.Lstat(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err = os.Stat(filepath.Dir(string(f))); err == nil {
			return nil
		}
	}
	var content []byte
	if err == nil && about.Mode().IsRegular() {
		content, err = os.ReadFile(string(f))
	}
	switch {
	case err != nil:
		return fmt.Errorf("--env: %w", err)
	case !bytes.HasPrefix(content, []byte(envHeader)):
		return fmt.Errorf("--env %s exists and was not written by dispensary: use another file", f)
	}
	return nil
}

// write replaces the file with the variables. Only the user can read it.
func (f envFile) write(variables map[string]string) error {
	if f == "" {
		return nil
	}
	if err := f.check(); err != nil {
		return err
	}
	var content strings.Builder
	content.WriteString(envHeader)
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if value := variables[name]; value != "" {
			fmt.Fprintf(&content, "%s=%s\n", name, quotedValue(value))
		}
	}
	file, err := os.CreateTemp(filepath.Dir(string(f)), ".env-*") // with mode 0600
	if err != nil {
		return fmt.Errorf("--env: %w", err)
	}
	_, err = file.WriteString(content.String())
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), string(f))
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("--env: %w", err)
	}
	return nil
}

// plain matches a value without special characters for shells and .env parsers.
var plain = regexp.MustCompile(`^[\w.,:/@%+=?&-]*$`)

// quotedValue returns a value without line breaks in the syntax of the file.
func quotedValue(value string) string {
	switch {
	case plain.MatchString(value):
		return value
	case !strings.Contains(value, "'"):
		return "'" + value + "'"
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(value) + `"`
}
