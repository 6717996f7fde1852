package doctor

import (
	"errors"
	"net"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestReasonNamesProxy(t *testing.T) {
	t.Parallel()
	through := func(err error) error { return &url.Error{Op: "Get", URL: "https://platform.example/?canary", Err: err} }
	assert.Equal(t, "proxy responded 407 Proxy Authentication Required", reason(through(errors.New("Proxy Authentication Required"))))
	assert.Equal(t, "proxy not reachable: network failure", reason(through(&net.OpError{Op: "proxyconnect", Net: "tcp", Err: errors.New("canary")})))
}
