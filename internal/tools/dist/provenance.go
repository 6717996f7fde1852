package main

import (
	"os"
	"runtime"
)

// statement is an in-toto Statement v1 with a SLSA provenance v1 predicate, see
// https://slsa.dev/spec/v1.0/provenance.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     provenance `json:"predicate"`
}

type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

type provenance struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		InternalParameters   map[string]string `json:"internalParameters"`
		ResolvedDependencies []resource        `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

// writeProvenance writes the provenance of all other files. The builder is the script on any machine, so equal
// commits have equal provenance. The release workflow signs another statement about the same files with the
// ID of the run (actions/attest-build-provenance).
func (r *release) writeProvenance() error {
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	for _, file := range files {
		sum, err := r.digest(file.Name())
		if err != nil {
			return err
		}
		s.Subject = append(s.Subject, resource{Name: file.Name(), Digest: map[string]string{"sha256": sum}})
	}
	source := "git+" + repository
	definition := &s.Predicate.BuildDefinition
	definition.BuildType = repository + "/blob/main/CONTRIBUTING.md#releasing"
	definition.ExternalParameters = map[string]string{"source": source, "version": r.version}
	definition.InternalParameters = map[string]string{"go": runtime.Version()}
	definition.ResolvedDependencies = []resource{{URI: source, Digest: map[string]string{"gitCommit": r.commit}}}
	s.Predicate.RunDetails.Builder.ID = repository + "/blob/" + r.commit + "/.ci/release"
	text, err := encodeJSON(s)
	if err != nil {
		return err
	}
	return r.createFile(command+"_"+r.version+"_provenance.json", text)
}
