package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestInterruptEndsPrompts(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"question": {"probe"}, "request body": {"api", "POST", "/clinic/patients", "--input", "-"}, "delivery": {"verify", "-", "--secret-file", "input_test.go"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t).withToken()
			f.terminal = true
			stdin, _ := io.Pipe()
			asked := &signaling{Reader: stdin, read: make(chan struct{})}
			r := f.start(asked, args...)
			<-asked.read
			r.end(exitFailed)
			assert.Contains(t, r.errOut.String(), "dispensary: interrupted\n")
			assert.Empty(t, f.platform.Journal.Requests())
		})
	}
}

// signaling reports its first read.
type signaling struct {
	io.Reader
	read chan struct{}
}

func (s *signaling) Read(to []byte) (int, error) {
	close(s.read)
	return s.Reader.Read(to)
}
