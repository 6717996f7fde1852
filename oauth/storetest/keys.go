package storetest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// keys plays that environments and users are compared byte by byte.
var keys = map[string]func(*testing.T, opener){
	"UsersAreBytes":         usersAreBytes,
	"InvalidKeys":           invalidKeys,
	"EnvironmentsAreWorlds": environmentsAreWorlds,
}

// alike are users whom some database takes for the same: in case, accents, width,
// composition, ligatures, ignorable characters, length, wildcards or quotes.
var alike = []string{
	"user-17", "USER-17", "User-17", "user-1", "user-170", "user_17", "user%17", "user-%", "user‐17",
	"ｕser-17", "user-17\u200b", "\ufeffuser-17", "user  17", "user 17", "user\u00a017", "user-017",
	"é", "e\u0301", "e", "E", "É", "ß", "ss", "SS", "ẞ", "æ", "ae", "ﬁ", "fi", "i", "I", "ı", "İ",
	"\u212b", "\u00c5", "A\u030a", "ñ", "n", "ø", "o", "ł", "l", "😀", "😁", "\U0001f1e8\U0001f1e6", "日本", "日夲",
	"a'b", "a''b", `a"b`, `a\b`, `a\\b`, "a;b", "a--b", "0", "00", "0.0", "1e1", "10", "null", "NULL",
}

func usersAreBytes(t *testing.T, open opener) {
	store := open()
	users := append([]string{strings.Repeat("x", 254) + "y", strings.Repeat("x", 254) + "z", strings.Repeat("é", 127) + "x"}, alike...)
	records := map[string]tokens.Record{}
	for i, user := range users {
		key := tokens.Key{Environment: usSandbox, User: user}
		_, err := store.Load(t.Context(), key)
		requireError(t, err, tokens.ErrNoRecord, "%q was taken for a user before it", user)
		records[user] = save(t, store, key, i)
	}
	for _, user := range users {
		requireSame(t, records[user], load(t, store, records[user].Key))
	}
	for i, user := range users {
		record := records[user]
		committed, err := store.Commit(t.Context(), take(t, store, record, "a", long), sample(record.Key, 1000+i))
		require.NoError(t, err, "%q", user)
		records[user] = committed
	}
	for _, user := range users {
		requireSame(t, records[user], load(t, store, records[user].Key))
		require.NoError(t, store.DeleteVersion(t.Context(), records[user].Key, records[user].Version))
		_, err := store.Load(t.Context(), records[user].Key)
		requireError(t, err, tokens.ErrNoRecord, "%q", user)
	}
}

// invalidKeys asks for users whom Save refuses, and whom a database may
// take for others or stumble over.
func invalidKeys(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	record := save(t, store, user17, 1)
	take(t, store, record, "a", long)
	same := unchanged(t, store, user17)
	keys := []tokens.Key{{}, {User: "user-17"}, {Environment: api.Environment{Region: "US", Stage: "Sandbox"}, User: "user-17"}}
	for _, user := range []string{
		"", " ", "user-17 ", "user-17\t", "user-17\n", "user-17\x00", "\x00", " user-17", "a\xff", "\xc3\x28", strings.Repeat("x", 100_000),
	} {
		keys = append(keys, tokens.Key{Environment: usSandbox, User: user})
	}
	for _, key := range keys {
		lease := tokens.Lease{Key: key, Version: record.Version, Owner: "a"}
		_, err := store.Load(ctx, key)
		requireError(t, err, tokens.ErrNoRecord, "Load of %.20q", key.User)
		_, err = store.Lease(ctx, lease, long)
		requireError(t, err, tokens.ErrNoRecord, "Lease of %.20q", key.User)
		_, err = store.Fail(ctx, lease, tokens.ReasonInvalidGrant)
		requireError(t, err, tokens.ErrNoRecord, "Fail of %.20q", key.User)
		require.NoError(t, store.Release(ctx, lease), "Release of %.20q", key.User)
		require.NoError(t, store.DeleteVersion(ctx, key, record.Version), "DeleteVersion of %.20q", key.User)
		same()
	}
	_, err := store.Lease(ctx, leaseOf(record, "b"), long)
	requireError(t, err, tokens.ErrLeased, "the lease is where it was")
}

func environmentsAreWorlds(t *testing.T, open opener) {
	store := open()
	var records []tokens.Record
	for i, environment := range []api.Environment{usSandbox, caSandbox, usLive} {
		key := tokens.Key{Environment: environment, User: "user-17"}
		_, err := store.Load(t.Context(), key)
		requireError(t, err, tokens.ErrNoRecord)
		records = append(records, save(t, store, key, i))
	}
	require.NoError(t, store.DeleteVersion(t.Context(), records[0].Key, records[0].Version))
	for _, record := range records[1:] {
		requireSame(t, record, load(t, store, record.Key))
		take(t, store, record, "a", long)
	}
}
