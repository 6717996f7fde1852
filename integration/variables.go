package integration

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
	"github.com/dispensary-go/dispensary/internal/environ"
)

// prefix begins the names of all variables.
const prefix = "DISPENSARY_"

// variable is a variable of the environment or of a file.
type variable struct {
	value string
	at    string // file and line, empty for the environment
	err   error  // the line has no usable value
}

// variables are the variables of this library that are not empty, by name.
type variables map[string]variable

// readVariables reads the environment and files. The environment overrides the files, and a file
// overrides later files.
func readVariables(environ, files []string) (variables, error) {
	all := variables{}
	for _, entry := range environ { // a later entry overrides an earlier one
		if name, value, _ := strings.Cut(entry, "="); isOurs(name) {
			all[name] = variable{value: value, err: mistake(value)}
		}
	}
	all.dropEmpty()
	for _, path := range files {
		lines, err := readEnvFile(path)
		if err != nil {
			return nil, err
		}
		overridden := maps.Clone(all)
		for name, v := range lines {
			value := strings.TrimSuffix(name, "_FILE") // NAME overrides NAME_FILE as well
			if overridden[value] == (variable{}) && overridden[value+"_FILE"] == (variable{}) {
				all[name] = v
			}
		}
	}
	return all, nil
}

// mistake returns the problem of a value without quotes of its own, or nil.
func mistake(value string) error {
	if problem := environ.ValueProblem(value); problem != "" {
		return errors.New(problem)
	}
	return nil
}

func (v variables) dropEmpty() {
	maps.DeleteFunc(v, func(_ string, one variable) bool { return one.value == "" && one.err == nil })
}

// isOurs reports whether a name has the prefix, in any case: Windows ignores the case of names.
func isOurs(name string) bool {
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) && !foreign.MatchString(name)
}

// foreign matches variables of tests, and variables of Kubernetes for each Service.
var foreign = regexp.MustCompile(`^DISPENSARY_(TEST_.*|(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?))$`)

// get implements the get of a reader.
func (v variables) get(environment dispensary.Environment, key string, list bool) ([]string, error) {
	one := v[fromVariables.variable(environment, key)]
	switch {
	case one.err != nil:
		return nil, one.err
	case one.value == "":
		return nil, nil
	case list:
		values := strings.Fields(one.value)
		for i := 0; i < len(values) && one.at == ""; i++ {
			if err := mistake(values[i]); err != nil {
				return nil, err
			}
		}
		return values, nil
	}
	return []string{one.value}, nil
}

// unknown returns a problem for each unknown variable.
func (v variables) unknown() (problems []error) {
	known := environ.SharedVariables()
	for _, key := range keysOf(ofConfig) {
		known = append(known, fromVariables.variable("", key))
	}
	for _, environment := range environ.Environments() {
		for _, key := range keysOf(ofApplication) {
			known = append(known, fromVariables.variable(environment, key))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if slices.Contains(known, name) {
			continue
		}
		reason := "is not a variable of this library"
		if near := nearest(name, known); near != "" {
			reason += ": did you mean " + near + "?"
		}
		problems = append(problems, &api.ArgumentError{Field: name, Reason: reason})
	}
	return problems
}

// nearest returns the known name closest to name, or "". A common beginning does not count,
// because all names would be close otherwise.
func nearest(name string, known []string) string {
	common := prefix
	for _, environment := range environ.Environments() {
		if one := fromVariables.variable(environment, ""); strings.HasPrefix(strings.ToUpper(name), one) {
			common = one
		}
	}
	var ends []string
	for _, one := range known {
		if end, ok := strings.CutPrefix(one, common); ok {
			ends = append(ends, end)
		}
	}
	if near := closestmatch.To(strings.ToUpper(name[len(common):]), ends); near != "" {
		return common + near
	}
	return ""
}

// located adds the line to each problem of a variable in a file.
func (v variables) located(err error) error {
	problems := environ.Errors(err)
	for i, problem := range problems {
		var argument *api.ArgumentError
		if !errors.As(problem, &argument) {
			continue
		}
		name, _, _ := strings.Cut(argument.Field, "[")
		if at := v[name].at; at != "" {
			problems[i] = &api.ArgumentError{Field: argument.Field, Reason: "in " + at + " " + argument.Reason, Err: argument.Err}
		}
	}
	return errors.Join(problems...)
}

// assignment matches a line for a variable of this library.
var assignment = regexp.MustCompile(`(?i)^(?:export\s+)?(` + prefix + `\w*)(.*)$`)

// readEnvFile reads the variables of this library in a file. Other lines belong to other
// programs.
func readEnvFile(path string) (variables, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("integration: %w", err)
	}
	if content, err = environ.DecodeText(content); err != nil {
		return nil, fmt.Errorf("integration: %s %w", path, err)
	}
	all := variables{}
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		parts := assignment.FindStringSubmatch(strings.TrimSpace(line))
		if parts == nil || !isOurs(parts[1]) {
			continue
		}
		value, err := valueOf(parts[2])
		all[parts[1]] = variable{value: value, at: fmt.Sprintf("%s:%d", path, number), err: err}
	}
	all.dropEmpty()
	return all, nil
}

// escapes decodes the escapes in double quotes.
var escapes = strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", `\"`, `"`, `\\`, `\`, `\$`, "$")

// comment matches the comment behind a value without quotes.
var comment = regexp.MustCompile(`(^|\s)#.*`)

// quoted matches a value in quotes, and the rest of the line.
var quoted = regexp.MustCompile(`^(?:'([^']*)'|"((?:[^"\\]|\\.)*)")(.*)$`)

// valueOf returns the value in the part of a line behind the name. Its errors quote nothing.
func valueOf(text string) (string, error) {
	text, ok := strings.CutPrefix(text, "=")
	if !ok {
		return "", errors.New("is not followed by =")
	}
	if text = strings.TrimSpace(text); text == "" || text[0] != '\'' && text[0] != '"' {
		text = strings.TrimSpace(comment.ReplaceAllString(text, ""))
		return text, mistake(text)
	}
	parts := quoted.FindStringSubmatch(text)
	if parts == nil {
		return "", errors.New("lacks the closing quote on its line")
	}
	if rest := strings.TrimSpace(parts[3]); rest != "" && rest[0] != '#' {
		return "", errors.New("has text after its closing quote")
	}
	if text[0] == '\'' {
		return parts[1], nil
	}
	return escapes.Replace(parts[2]), nil
}
