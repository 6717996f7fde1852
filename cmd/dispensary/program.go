package main

import (
	"io"
	"sync/atomic"
)

// program is the command with all that it finds around it, so that tests can run it in
// their own process.
type program struct {
	in          io.Reader
	out, errOut io.Writer
	lookup      func(name string) (value string, ok bool) // environment variables
	configDir   func() (string, error)                    // of the user
	cacheDir    func() (string, error)                    // of the user
	terminal    bool                                      // out is one
	asks        bool                                      // in is one, whose user can be asked
	keyring     keyringStore

	// What the flags of all commands say.
	json, noColor, production bool
	config, profile           string

	sent atomic.Bool // an HTTP request of the command got a connection
}
