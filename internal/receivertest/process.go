package receivertest

import (
	"io"
	"net"
	"os"
	"os/exec"
)

// StartReceiver starts the test program once more, with some more variables in its
// environment, as a receiver that inherits a socket: who connects while no receiver
// is there waits for the next one. What it says is appended to a file. It ends when
// this process does, if not before.
func StartReceiver(socket *os.File, log string, environ ...string) (*exec.Cmd, error) {
	output, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }() // the receiver has its own
	receiver := exec.Command(os.Args[0])
	receiver.Env = append(os.Environ(), environ...)
	receiver.ExtraFiles = []*os.File{socket}
	receiver.Stdout, receiver.Stderr = output, output
	if _, err := receiver.StdinPipe(); err != nil {
		return nil, err
	}
	return receiver, receiver.Start()
}

// Inherited returns, in a receiver, the listener of the socket. From now on the
// receiver ends with the process that started it.
func Inherited() (net.Listener, error) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // nothing comes, and then the end
		os.Exit(1)
	}()
	return net.FileListener(os.NewFile(3, "listener"))
}
