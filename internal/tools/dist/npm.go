package main

import (
	"io"
	"os"
	"strings"
)

// scope is the npm scope of all packages. The package of the command has an optional dependency for each
// system, and a package manager installs the matching one. No package has an install script.
const scope = "@dispensary-go/"

// manifest is a package.json.
type manifest struct {
	Name            string            `json:"name"`
	Version         string            `json:"version"`
	Description     string            `json:"description"`
	License         string            `json:"license"`
	Repository      map[string]string `json:"repository"`
	Bin             map[string]string `json:"bin,omitempty"`
	Engines         map[string]string `json:"engines,omitempty"`
	OS              []string          `json:"os,omitempty"`
	CPU             []string          `json:"cpu,omitempty"`
	PreferUnplugged bool              `json:"preferUnplugged,omitempty"` // Yarn must unzip the program
	Optional        map[string]string `json:"optionalDependencies,omitempty"`
}

// npmName returns the name of a system's package, with Node's names of the system.
func (s system) npmName() string { return scope + "cli-" + s.npmOS() + "-" + s.npmCPU() }

func (s system) npmOS() string { return strings.Replace(s.os, "windows", "win32", 1) }

func (s system) npmCPU() string { return strings.Replace(s.arch, "amd64", "x64", 1) }

// writePackages writes the packages as npm pack would.
func (r *release) writePackages(programs []program) error {
	wrapper, err := files.ReadFile("files/npm.js")
	if err != nil {
		return err
	}
	readme, err := execute("npm.md.tmpl", map[string]string{"Repository": repository})
	if err != nil {
		return err
	}
	m := r.manifest(scope+"cli", "A fake supplement dispensary platform, and tools for its integrators")
	m.Bin = map[string]string{command: "bin/dispensary.js"}
	m.Engines = map[string]string{"node": ">=18"}
	m.Optional = map[string]string{}
	for _, s := range systems {
		m.Optional[s.npmName()] = r.version
	}
	if err := r.writePackage(m, entry{"README.md", 0o644, readme}, entry{"bin/dispensary.js", 0o755, wrapper}); err != nil {
		return err
	}
	for _, p := range programs {
		if p.name != command {
			continue
		}
		executable, err := os.ReadFile(p.path)
		if err != nil {
			return err
		}
		m := r.manifest(p.npmName(), "The program of "+scope+"cli for "+p.npmOS()+" on "+p.npmCPU())
		m.OS, m.CPU, m.PreferUnplugged = []string{p.npmOS()}, []string{p.npmCPU()}, true
		if err := r.writePackage(m, p.notice(), entry{"bin/" + p.fileName(), 0o755, executable}); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) manifest(name, description string) manifest {
	return manifest{
		Name: name, Version: r.version, Description: description, License: "MIT",
		Repository: map[string]string{"type": "git", "url": "git+" + repository + ".git"}, // npm compares the URL with the provenance
	}
}

func (r *release) writePackage(m manifest, content ...entry) error {
	text, err := encodeJSON(m)
	if err != nil {
		return err
	}
	license, err := r.license()
	if err != nil {
		return err
	}
	entries := append([]entry{{"package.json", 0o644, text}, license}, content...)
	for i := range entries {
		entries[i].name = "package/" + entries[i].name
	}
	name := strings.NewReplacer("@", "", "/", "-").Replace(m.Name) + "-" + m.Version + ".tgz"
	return r.create(name, func(w io.Writer) error { return writeTarball(w, r.time, entries) })
}

// archive is a line of the formula.
type archive struct{ URL, Digest string }

// writeFormula writes the Homebrew formula. It installs the command from the archives.
func (r *release) writeFormula(programs []program) error {
	archives := map[string]map[string]archive{} // by system and architecture
	for _, p := range programs {
		if p.name != command || p.os == "windows" {
			continue
		}
		sum, err := r.digest(r.archiveName(p))
		if err != nil {
			return err
		}
		if archives[p.os] == nil {
			archives[p.os] = map[string]archive{}
		}
		// The tag of the release is cmd/dispensary/v1.2.3.
		archives[p.os][p.arch] = archive{repository + "/releases/download/cmd%2Fdispensary%2Fv" + r.version + "/" + r.archiveName(p), sum}
	}
	text, err := execute("formula.rb.tmpl", map[string]any{"Version": r.version, "Repository": repository, "Archives": archives})
	if err != nil {
		return err
	}
	return r.createFile(command+".rb", text)
}
