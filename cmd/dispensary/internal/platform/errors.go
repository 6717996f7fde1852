package platform

import (
	"errors"
	"net"
	"strings"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/httpserve"
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
		return httpserve.ListenError("--addr", addr, err)
	}
	return errors.New(inFlags.Replace(err.Error()))
}
