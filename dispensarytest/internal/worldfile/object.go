package worldfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/internal/closestmatch"
)

// maxText is the longest text in characters, as in the API.
const maxText = 255

// object is an object of the file. It reports problems with the path of the member, without its
// value, and remembers the members it has read.
type object struct {
	path     string // of the members, such as "patients[3]."
	values   map[string]any
	read     []string
	problems *[]error
}

// parse returns the object of a file.
func parse(content []byte) (*object, error) {
	root := &object{problems: new([]error)}
	err := json.Unmarshal(content, &root.values)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("line %d: %w", 1+bytes.Count(content[:syntax.Offset], []byte("\n")), err)
	case err != nil || root.values == nil:
		return nil, errors.New("is not a JSON object")
	}
	return root, nil
}

func (o *object) problem(name, reason string) {
	*o.problems = append(*o.problems, errors.New(o.path+name+" "+reason))
}

// member returns a member of a type, or the zero value if it is absent, null or of another type.
func member[T any](o *object, name, kind string) T {
	o.read = append(o.read, name)
	value, ok := o.values[name].(T)
	if o.values[name] != nil && !ok {
		o.problem(name, "is not "+kind)
	}
	return value
}

func (o *object) text(name string) string {
	text := member[string](o, name, "a text")
	if utf8.RuneCountInString(text) > maxText {
		o.problem(name, fmt.Sprintf("is longer than %d characters", maxText))
	}
	return text
}

// word returns a required text.
func (o *object) word(name string) string {
	before := len(*o.problems)
	text := o.text(name)
	if strings.TrimSpace(text) == "" && len(*o.problems) == before {
		o.problem(name, "is empty")
	}
	return text
}

// fitting returns a text. It reports a text that does not fit.
func (o *object) fitting(name, kind string, fits func(string) bool) string {
	text := o.text(name)
	if text != "" && !fits(text) {
		o.problem(name, "is not "+kind)
	}
	return text
}

// choice returns one of several texts, by default the first.
func (o *object) choice(name string, allowed ...string) string {
	names := slices.Compact(slices.Sorted(slices.Values(allowed)))
	text := o.fitting(name, "one of "+strings.TrimPrefix(strings.Join(names, ", "), ", "), func(text string) bool { return slices.Contains(allowed, text) })
	if text == "" {
		return allowed[0]
	}
	return text
}

// percent returns a number from 0 to 100.
func (o *object) percent(name string) float64 {
	n := member[float64](o, name, "a number")
	if n < 0 || n > 100 {
		o.problem(name, "is not a number from 0 to 100")
	}
	return n
}

// count returns a whole number above 0, or fallback if it is absent.
func (o *object) count(name string, fallback int) int {
	n := member[float64](o, name, "a number")
	switch {
	case o.values[name] == nil:
		return fallback
	case n != float64(int32(n)) || n < 1:
		o.problem(name, "is not a whole number above 0")
	}
	return int(n)
}

// objects returns the objects of a list.
func (o *object) objects(name string) []*object {
	var all []*object
	for i, value := range member[[]any](o, name, "a list") {
		at := fmt.Sprintf("%s[%d]", name, i)
		values, ok := value.(map[string]any)
		if !ok {
			o.problem(at, "is not an object")
			continue
		}
		all = append(all, &object{path: o.path + at + ".", values: values, problems: o.problems})
	}
	return all
}

// end reports unread members.
func (o *object) end() {
	for _, name := range slices.Sorted(maps.Keys(o.values)) {
		if slices.Contains(o.read, name) {
			continue
		}
		reason := "does not exist"
		if near := closestmatch.To(name, o.read); near != "" {
			reason += ": did you mean " + near + "?"
		}
		o.problem(name, reason)
	}
}
