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
		return skip("no secret file is known")
	}
	if runtime.GOOS == "windows" {
		return skip("Windows permissions are not checked")
	}
	var open, commands []string
	for _, name := range r.config.SecretFiles {
		if exposed(name) {
			open = append(open, name)
			commands = append(commands, "chmod 600 '"+strings.ReplaceAll(name, "'", `'\''`)+"'")
		}
	}
	if len(open) > 0 {
		return warn("open to other users of this machine: "+strings.Join(open, ", "), "other users can read or replace the secrets",
			"restrict these files to the user that runs the program", commands...)
	}
	return pass("closed to other users of this machine")
}

// exposed reports whether other users than the owner can write a file, or users outside its group
// can read it. It returns false for an unreadable path.
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
		if !has(folder, 0o011) { // only the owner can enter
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
		return warn(fmt.Sprintf("%s: connections to another machine may not use TLS", strings.Join(plain, ", ")),
			"others on the network can read and change all rows except encrypted values",
			"require TLS in the URL: sslmode=verify-full for PostgreSQL, tls=true for MySQL")
	}
	return pass("connections stay on this machine or use TLS")
}
