package main

import (
	"io"
	"slices"
	"strings"
	"sync/atomic"
)

// maxColumns is the width of running text in characters. Longer lines are hard to read.
const maxColumns = 100

// program is the command and its surroundings. Tests replace the surroundings to run it in their
// own process.
type program struct {
	in          io.Reader
	out, errOut io.Writer
	environ     []string               // as os.Environ returns it
	configDir   func() (string, error) // of the user
	cacheDir    func() (string, error) // of the user
	terminal    bool                   // out is a terminal
	columns     int                    // width of running text: that of the terminal, up to maxColumns
	asks        bool                   // in is a terminal, so that the user can be asked
	keyring     keyringStore

	// Flags of all commands.
	json, noColor, production bool
	config, profile           string

	sent atomic.Bool // an HTTP request of the command has had a connection
}

// lookup returns the value of a variable, or "".
func (p *program) lookup(name string) string {
	for _, variable := range slices.Backward(p.environ) {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}
