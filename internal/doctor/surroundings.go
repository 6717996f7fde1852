package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// secretFiles warns of files with secrets that other users of this machine can read or change.
func (r *run) secretFiles(context.Context) Row {
	if len(r.config.SecretFiles) == 0 {
		return skip("no file with secrets is known")
	}
	if runtime.GOOS == "windows" {
		return skip("permissions of Windows are not checked")
	}
	var open, commands []string
	for _, name := range r.config.SecretFiles {
		if exposed(name) {
			open = append(open, name)
			commands = append(commands, "chmod 600 '"+strings.ReplaceAll(name, "'", `'\''`)+"'")
		}
	}
	if len(open) > 0 {
		return warn("open to other users of this machine: "+strings.Join(open, ", "), "they can read or replace the secrets in them",
			"let only the user of the program read and write these files", commands...)
	}
	return pass("other users of this machine cannot open them")
}

// exposed reports whether others than the owner can write a file, or others than its group can
// read it. A file that cannot be examined is not exposed.
func exposed(name string) bool {
	const byOthers fs.FileMode = 0o026 // group writes, others read or write
	real, err := filepath.Abs(name)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil || !has(real, byOthers) {
		return false
	}
	for folder := filepath.Dir(real); ; folder = filepath.Dir(folder) {
		if !has(folder, 0o011) { // only its owner can enter
			return false
		}
		if folder == filepath.Dir(folder) {
			return true
		}
	}
}

func has(name string, mode fs.FileMode) bool {
	about, err := os.Stat(name)
	return err == nil && about.Mode().Perm()&mode != 0
}

// databaseTLS warns of connections to databases that the network can read.
func (r *run) databaseTLS(context.Context) Row {
	if len(r.config.Databases) == 0 {
		return skip("no database server is configured")
	}
	var plain []string
	for _, database := range r.config.Databases {
		if !database.Private {
			plain = append(plain, database.Setting)
		}
	}
	if len(plain) > 0 {
		return warn(fmt.Sprintf("%s: connections to another machine may be without TLS", strings.Join(plain, ", ")),
			"others on the network can read and change all rows, except for sealed values",
			"require TLS in the address: sslmode=verify-full for PostgreSQL, tls=true for MySQL")
	}
	return pass("connections stay on this machine or use TLS")
}
