package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/term"
)

// openTerminal opens a new pseudo terminal.
func openTerminal(t *testing.T) *os.File {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo terminal is available: ", err)
	}
	t.Cleanup(func() { _ = control.Close() })
	var number, unlocked int32
	for request, value := range map[uintptr]*int32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &unlocked} {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, control.Fd(), request, uintptr(unsafe.Pointer(value)))
		require.Zero(t, errno)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = terminal.Close() })
	return terminal
}

// Without a restore, the shell would not show typed text.
func TestInterruptedPromptRestoresTerminal(t *testing.T) {
	t.Parallel()
	terminal := openTerminal(t)
	state := func() *term.State {
		now, err := term.GetState(int(terminal.Fd()))
		require.NoError(t, err)
		return now
	}
	before := state()
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := (&program{in: terminal, errOut: &bytes.Buffer{}}).readSecret(ctx)
		ended <- err
	}()
	require.Eventually(t, func() bool { return !assert.ObjectsAreEqual(before, state()) }, time.Minute, time.Millisecond, "the terminal must hide the input")
	interrupt()
	require.ErrorIs(t, <-ended, context.Canceled)
	assert.Equal(t, before, state())
}
