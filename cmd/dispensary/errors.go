package main

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

// inFlags replaces the names of options by those of flags.
var inFlags = strings.NewReplacer(
	"dispensarytest: ", "", "WithIntegrations", "--integrations ", "WithRedirectURI", "--redirect-uri ",
	"WithBehaviorsFile", "--behaviors", "]: there is no open point", "]: there is no open point", // in that file
	"there is no open point", "--behavior: there is no open point", "there is no scope", "--scopes: there is no scope",
	"webhook address", "--webhook", "the webhook endpoint was refused", "--webhook: the endpoint was refused",
)

// startError says why the platform does not start, in the words of the command line.
func startError(err error, addr string) error {
	var listening *net.OpError
	if errors.As(err, &listening) && listening.Op == "listen" && !errors.Is(err, dispensarytest.ErrOption) {
		return listenError("--addr", addr, err)
	}
	return errors.New(inFlags.Replace(err.Error()))
}

// listenError names the flag whose address cannot be listened on.
func listenError(name, addr string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s %s: the address is in use already", name, addr)
	}
	var listening *net.OpError
	if errors.As(err, &listening) {
		err = listening.Err
	}
	return fmt.Errorf("%s %s: %w", name, addr, err)
}
