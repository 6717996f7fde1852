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
// The keys are the names of [Load]'s variables in lower case, without the prefix. Lists are JSON
// arrays. An unknown key is an error that suggests the closest known key. Otherwise LoadFile works
// like Load. If the file cannot be read or is not JSON in UTF-8, the error is not an
// [*api.ArgumentError].
func LoadFile(path string) (Config, error) {
	return loadFile(path, func(data []byte) ([]byte, error) { return data, nil })
}

// LoadProfile reads one of several configurations in a file, for tools that work with several
// installations:
//
//	{"profiles": {"sandbox": {…}, "staging": {…}}}
//
// Each profile has the form of a file for [LoadFile]. If the profile does not exist, the error is
// an [*api.ArgumentError] that suggests the closest name.
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

// loadFile reads a configuration from the section of a file.
func loadFile(path string, section func(data []byte) ([]byte, error)) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("integration: %w", err)
	}
	if data, err = environ.DecodeText(data); err != nil {
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

// validJSON returns an error with the line of the first mistake in JSON.
func validJSON(data []byte) error {
	if json.Valid(data) {
		return nil
	}
	var nothing any
	err := json.Unmarshal(data, &nothing)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("line %d: %w", 1+bytes.Count(data[:syntax.Offset], []byte("\n")), err)
	}
	return err
}

// document is a parsed file.
type document struct {
	all          map[string]json.RawMessage
	environments map[dispensary.Environment]map[string]json.RawMessage
	problems     []error
}

// parse reads the members of a configuration in valid JSON, and records unknown members as
// problems.
func (d *document) parse(data []byte) {
	d.all = d.object("", data, append(keysOf(ofConfig), "environments"))
	environments := d.all["environments"]
	if environments == nil {
		return
	}
	var known []string
	for _, environment := range environ.Environments() {
		known = append(known, environment.String())
	}
	for name, members := range d.object("environments", environments, known) {
		environment, err := api.ParseEnvironment(name)
		if err != nil {
			continue // object has reported the unknown environment
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

// object returns the members of an object. It records a problem if data is not an object, and for
// each unknown or repeated member.
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
	_, _ = decoder.Token() // {, because the JSON is valid
	for decoder.More() {
		token, _ := decoder.Token()
		key, _ := token.(string)
		var member json.RawMessage
		_ = decoder.Decode(&member)
		full := strings.TrimPrefix(name+"."+key, ".")
		switch _, twice := members[key]; {
		case twice:
			d.problem(full, "appears twice")
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

// get implements the get of a reader.
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
			return nil, errors.New("is not an array of strings")
		}
		return values, nil
	}
	var value string
	if json.Unmarshal(member, &value) != nil {
		return nil, errors.New("is not a string")
	}
	if value == "" {
		return nil, nil
	}
	return []string{value}, nil
}
