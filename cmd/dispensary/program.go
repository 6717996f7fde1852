package main

import (
	"io"
	"slices"
	"strings"
	"sync/atomic"
)

// program is the command with all that it finds around it, so that tests can run it in
// their own process.
type program struct {
	in          io.Reader
	out, errOut io.Writer
	environ     []string               // variables, as of os.Environ
	configDir   func() (string, error) // of the user
	cacheDir    func() (string, error) // of the user
	terminal    bool                   // out is one
	asks        bool                   // in is one, whose user can be asked
	keyring     keyringStore

	// What the flags of all commands say.
	json, noColor, production bool
	config, profile           string

	sent atomic.Bool // an HTTP request of the command got a connection
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
