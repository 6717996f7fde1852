package platform

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/httpserve"
)

// flagOf maps an option to its flag.
var flagOf = map[string]string{
	"dispensarytest.WithRedirectURI": "--redirect-uri", "dispensarytest.WithScopes": "--scopes", "dispensarytest.WithWebhook": "--webhook",
	"dispensarytest.WithBehavior": "--behavior", "dispensarytest.WithBehaviorsFile": "--behaviors", "dispensarytest.Tuning.Integrations": "--integrations",
	"dispensarytest.WithWorldFile": "--world",
}

// startError returns the reason for a failed start in terms of the command line. It replaces
// options by flags, and removes the package prefix.
func startError(err error, addr, state string) error {
	var listening *net.OpError
	var argument *api.ArgumentError
	switch {
	case errors.As(err, &argument) && argument.Field == "dispensarytest.WithSnapshot":
		return fmt.Errorf("--state %s: %s; the file was not changed", state, strings.TrimPrefix(argument.Reason, "is invalid: "))
	case errors.As(err, &argument) && flagOf[argument.Field] != "":
		return errors.New(flagOf[argument.Field] + ": " + strings.TrimPrefix(argument.Reason, "is invalid: "))
	case errors.As(err, &listening) && listening.Op == "listen" && argument == nil:
		return httpserve.ListenError("--addr", addr, err)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "dispensarytest: "))
}
