package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
	"github.com/dispensary-go/dispensary/internal/environ"
	"github.com/dispensary-go/dispensary/internal/textfile"
)

// LoadFile reads a configuration from a file in JSON:
//
//	{
//	  "environments": {
//	    "us/sandbox": {
//	      "base_url": "https://platform.example/api", "auth_url": "https://platform.example",
//	      "client_id": "…", "client_secret_file": "/run/secrets/client_secret",
//	      "redirect_url": "https://ehr.example/dispensary/callback",
//	      "webhook_secrets": ["…"], "webhook_challenge": "…", "rate_limit": "5000/5m"
//	    }
//	  },
//	  "store": "sqlite:/var/lib/ehr/dispensary.db",
//	  "inbox": "sqlite:/var/lib/ehr/dispensary.db",
//	  "seal_keys_file": "/run/secrets/seal_keys",
//	  "state_keys": ["…"]
//	}
//
// The keys are the names of [Load]'s variables in lower case, without what comes in
// front, and lists are lists. A key that does not exist is an error, which says what was
// meant. Everything else is as with Load; an error that is no [*api.ArgumentError]
// says that the file cannot be read, or is no JSON in UTF-8.
func LoadFile(path string) (Config, error) {
	return loadFile(path, func(data []byte) ([]byte, error) { return data, nil })
}

// LoadProfile reads one of several configurations in a file, for people and tools that work
// with several installations:
//
//	{"profiles": {"sandbox": {…}, "staging": {…}}}
//
// Each has the form that [LoadFile] reads. A profile that does not exist is an
// [*api.ArgumentError], which says what was meant.
func LoadProfile(path, profile string) (Config, error) {
	return loadFile(path, func(data []byte) ([]byte, error) {
		var file struct {
			Profiles map[string]json.RawMessage `json:"profiles"`
		}
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&file); err != nil {
			return nil, errors.New(`is not of the form {"profiles": {"NAME": {…}}}`)
		}
		section, ok := file.Profiles[profile]
		if !ok {
			reason := "does not exist"
			if near := closestmatch.To(profile, slices.Sorted(maps.Keys(file.Profiles))); near != "" {
				reason += ": did you mean " + near + "?"
			}
			return nil, &api.ArgumentError{Field: "profiles." + profile, Reason: reason}
		}
		return section, nil
	})
}

// loadFile reads the part of a file that holds a configuration.
func loadFile(path string, section func(data []byte) ([]byte, error)) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("integration: %w", err)
	}
	if data, err = textfile.Decode(data); err != nil {
		return Config{}, fmt.Errorf("integration: %s %w", path, err)
	}
	d := &document{environments: map[dispensary.Environment]map[string]json.RawMessage{}}
	if err := validJSON(data); err != nil {
		return Config{}, fmt.Errorf("integration: %s: %w", path, err)
	}
	if data, err = section(data); err != nil {
		return Config{}, fmt.Errorf("integration: %s: %w", path, err)
	}
	d.parse(data)
	r := &reader{names: fromFile, get: d.get, problems: d.problems, files: []string{path}}
	return r.read()
}

// validJSON says where a file is no JSON, before anything is said of its members.
func validJSON(data []byte) error {
	if json.Valid(data) {
		return nil
	}
	var nothing any
	err := json.Unmarshal(data, &nothing)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("line %d: %w", 1+bytes.Count(data[:syntax.Offset], []byte("\n")), err)
	}
	return err
}

// document is a file.
type document struct {
	all          map[string]json.RawMessage
	environments map[dispensary.Environment]map[string]json.RawMessage
	problems     []error
}

// parse reads the members of a configuration, which is JSON, and records those that do
// not exist.
func (d *document) parse(data []byte) {
	d.all = d.object("", data, append(keysOf(ofConfig), "environments"))
	environments := d.all["environments"]
	if environments == nil {
		return
	}
	var known []string
	for _, environment := range environ.All() {
		known = append(known, environment.String())
	}
	for name, members := range d.object("environments", environments, known) {
		environment, err := api.ParseEnvironment(name)
		if err != nil {
			continue // it is not known, which was said
		}
		d.environments[environment] = d.object("environments."+name, members, keysOf(ofApplication))
	}
}

func keysOf[T any](settings []setting[T]) []string {
	var known []string
	for _, s := range settings {
		known = append(known, s.key, s.key+"_file")
	}
	return known
}

// object returns the members of an object. It records a problem for each that is not
// known, that is there twice, and for what is no object.
func (d *document) object(name string, data []byte, known []string) map[string]json.RawMessage {
	members := map[string]json.RawMessage{}
	if data = bytes.TrimSpace(data); data[0] != '{' {
		d.problem(name, "is not an object")
		return nil
	}
	exists := map[string]bool{}
	for _, key := range known {
		exists[key] = true
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	_, _ = decoder.Token() // of valid JSON
	for decoder.More() {
		token, _ := decoder.Token()
		key, _ := token.(string)
		var member json.RawMessage
		_ = decoder.Decode(&member)
		full := strings.TrimPrefix(name+"."+key, ".")
		switch _, twice := members[key]; {
		case twice:
			d.problem(full, "is there twice")
		case !exists[key]:
			reason := "does not exist"
			if near := closestmatch.To(key, known); near != "" {
				reason += ": did you mean " + near + "?"
			}
			d.problem(full, reason)
		default:
			members[key] = member
		}
	}
	return members
}

func (d *document) problem(name, reason string) {
	d.problems = append(d.problems, &api.ArgumentError{Field: name, Reason: reason})
}

// get is the get of a reader.
func (d *document) get(environment dispensary.Environment, key string, list bool) ([]string, error) {
	members := d.all
	if environment != "" {
		members = d.environments[environment]
	}
	member, ok := members[key]
	if !ok {
		return nil, nil
	}
	if list {
		var values []string
		if json.Unmarshal(member, &values) != nil {
			return nil, errors.New("is not a list of texts")
		}
		return values, nil
	}
	var value string
	if json.Unmarshal(member, &value) != nil {
		return nil, errors.New("is not a text")
	}
	if value == "" {
		return nil, nil
	}
	return []string{value}, nil
}
