package dispensarytest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An address that cannot be called, or that holds a secret that would be shown with
// it, is refused for that reason.
func TestWebhookAddresses(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory())
	for address, says := range map[string]string{
		"https://user:hunter2@ehr.example.com/hook": "it names a user", "https://token@ehr.example.com/": "it names a user",
		"ftp://127.0.0.1/": "is not one of HTTPS", "file://host/etc/passwd": "is not one of HTTPS",
		"http://ehr.example.com/": "plain HTTP only on loopback", "/hook": "is not absolute", "https://ehr.example.com/#hook": "has a fragment",
	} {
		err := fake.Webhooks.Register(address)
		require.ErrorContains(t, err, says, address)
		assert.NotContains(t, err.Error(), "hunter2")
		assert.NotContains(t, err.Error(), "token")
		_, err = Start(WithWebhook(address))
		require.ErrorContains(t, err, says, address)
	}
	for _, address := range []string{"https://user:hunter2@ehr.example.com/cb", "https://token@ehr.example.com/cb"} {
		_, err := Start(WithRedirectURI(address))
		require.ErrorContains(t, err, "it names a user")
		assert.NotContains(t, err.Error(), "token")
		assert.NotContains(t, err.Error(), "hunter2")
	}
	require.NoError(t, fake.Webhooks.Register("http://localhost:8080/hook?tenant=7"))
}
