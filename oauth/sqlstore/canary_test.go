package sqlstore_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// mark is part of every stored secret. It is long enough to recognize its base64 form at every
// offset.
const mark = "CANARY-OF-A-TOKEN-THAT-MUST-NOT-BE-SEEN."

// findings returns the names of the mark's encodings found in left.
func findings(left []byte) []string {
	var found []string
	forms := map[string]string{"plain": mark, "hex": hex.EncodeToString([]byte(mark)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(mark)))}
	for shift := range 3 {
		forms["base64 "+string(rune('0'+shift))] = base64.RawStdEncoding.EncodeToString([]byte(mark)[shift:])[:40]
	}
	for name, form := range forms {
		if bytes.Contains(left, []byte(form)) {
			found = append(found, name)
		}
	}
	return found
}

// live runs every change of a token. Each token contains the mark.
func live(t *testing.T, store tokenstore.Store) {
	t.Helper()
	record, err := store.Save(t.Context(), user17, token(api.NewSecret(mark+"1")))
	require.NoError(t, err)
	for range 20 {
		lease := tokenstore.Lease{Key: user17, Version: record.Version, Owner: "a"}
		_, err = store.Lease(t.Context(), lease, time.Minute)
		require.NoError(t, err)
		next := token(api.NewSecret(mark + "2"))
		next.Replaced = []oauth.ReplacedGrant{{AccessToken: api.NewSecret(mark + "4"), RefreshToken: api.NewSecret(mark + "5")}}
		record, err = store.Commit(t.Context(), lease, next)
		require.NoError(t, err)
	}
	lease := tokenstore.Lease{Key: user17, Version: record.Version, Owner: "a"}
	_, err = store.Lease(t.Context(), lease, time.Minute)
	require.NoError(t, err)
	_, err = store.Fail(t.Context(), lease, record.Token, tokenstore.ReasonInvalidGrant)
	require.NoError(t, err)
	record, err = store.Save(t.Context(), user18, token(api.NewSecret(mark+"3")))
	require.NoError(t, err)
	require.NoError(t, store.DeleteVersion(t.Context(), user18, record.Version))
}

// left returns the stored data as an attacker could read it: the SQLite file with its log, a
// dump of PostgreSQL, or the token columns of MySQL.
func (d database) left(t *testing.T) []byte {
	t.Helper()
	switch d.dialect {
	case sqlstore.SQLite:
		return d.files(t)
	case sqlstore.PostgreSQL:
		if _, err := exec.LookPath("pg_dump"); err != nil {
			t.Skip("pg_dump is not installed")
		}
		name, schema, _ := strings.Cut(d.name, "&search_path=")
		dump, err := exec.CommandContext(t.Context(), "pg_dump", "--inserts", "--schema="+schema, "--dbname="+name).Output()
		require.NoError(t, err)
		require.Contains(t, string(dump), "dispensary_oauth_tokens")
		return dump
	}
	var all bytes.Buffer
	rows, err := d.open(t).QueryContext(t.Context(), "SELECT CONCAT_WS(' ', access_token, refresh_token, details, reason) FROM dispensary_oauth_tokens")
	require.NoError(t, err)
	for rows.Next() {
		var text []byte
		require.NoError(t, rows.Scan(&text))
		all.Write(text)
	}
	require.NoError(t, rows.Err())
	require.NoError(t, rows.Close())
	require.NotZero(t, all.Len())
	return all.Bytes()
}

func (d database) files(t *testing.T) []byte {
	t.Helper()
	path, _, _ := strings.Cut(strings.TrimPrefix(d.name, "file:"), "?")
	names, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(names), 2, "missing the database file or its log")
	var all []byte
	for _, name := range names {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		all = append(all, content...)
	}
	return all
}

func TestTablesContainNoSecret(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		live(t, d.sealed(t, d.migrated(t), newKeys(t)))
		assert.Empty(t, findings(d.left(t)))
	})
}
