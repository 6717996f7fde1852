package main

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
