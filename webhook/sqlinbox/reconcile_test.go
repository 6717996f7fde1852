package sqlinbox_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

func TestReconcilingAClosedInbox(t *testing.T) {
	t.Parallel()
	inbox, err := sqlinbox.Open(filepath.Join(t.TempDir(), "inbox.db"), config(t, receivertest.Succeed))
	require.NoError(t, err)
	require.NoError(t, inbox.Close(t.Context()))
	_, err = inbox.Missing(t.Context(), []webhook.Key{receivertest.NewDelivery().Key})
	require.ErrorIs(t, err, webhook.ErrInboxClosed)
	_, err = inbox.ClaimCheckpoint(t.Context(), "name", "holder", 1)
	require.ErrorIs(t, err, webhook.ErrInboxClosed)
	require.ErrorIs(t, inbox.SaveCheckpoint(t.Context(), "name", "holder", nil, 1), webhook.ErrInboxClosed)
	require.ErrorIs(t, inbox.ReleaseCheckpoint(t.Context(), "name", "holder"), webhook.ErrInboxClosed)
}
