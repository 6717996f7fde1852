package storetest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// keys tests the comparison of environments and users byte by byte.
var keys = map[string]func(*testing.T, opener){
	"Users":        usersAreBytes,
	"InvalidKeys":  invalidKeys,
	"Environments": environments,
}

// alike contains users that some databases treat as equal. They differ in case, accents,
// width, composition, ligatures, ignorable characters, length, wildcards or quotes.
var alike = []string{
	strings.Repeat("x", 254) + "y", strings.Repeat("x", 254) + "z", strings.Repeat("é", 127) + "x",
	"user-17", "USER-17", "User-17", "user-1", "user-170", "user_17", "user%17", "user-%", "user‐17",
	"ｕser-17", "user-17\u200b", "\ufeffuser-17", "user  17", "user 17", "user\u00a017", "user-017",
	"é", "e\u0301", "e", "E", "É", "ß", "ss", "SS", "ẞ", "æ", "ae", "ﬁ", "fi", "i", "I", "ı", "İ",
	"\u212b", "\u00c5", "A\u030a", "ñ", "n", "ø", "o", "ł", "l", "😀", "😁", "\U0001f1e8\U0001f1e6", "日本", "日夲",
	"a'b", "a''b", `a"b`, `a\b`, `a\\b`, "a;b", "a--b", "0", "00", "0.0", "1e1", "10", "null", "NULL",
}

func usersAreBytes(t *testing.T, open opener) {
	store := open()
	records := map[string]tokenstore.Record{}
	for i, user := range alike {
		refused(t, tokenstore.ErrNoRecord, "%q is equal to an earlier user", user)(store.Load(t.Context(), keyOf(user)))
		records[user] = save(t, store, keyOf(user), i)
	}
	for i, user := range alike {
		requireSame(t, records[user], load(t, store, keyOf(user)))
		committed := written(t)(store.Commit(t.Context(), take(t, store, records[user], "a", long), sample(keyOf(user), 1000+i)))
		records[user] = committed
	}
	for _, user := range alike {
		requireSame(t, records[user], load(t, store, keyOf(user)))
		require.NoError(t, store.DeleteVersion(t.Context(), keyOf(user), records[user].Version))
		refused(t, tokenstore.ErrNoRecord, "%q", user)(store.Load(t.Context(), keyOf(user)))
	}
}

// invalidKeys tests users that a database could reject or confuse with another user.
func invalidKeys(t *testing.T, open opener) {
	store := open()
	record := save(t, store, user17, 1)
	take(t, store, record, "a", long)
	same := unchanged(t, store, user17)
	keys := []tokenstore.Key{{}, {User: "user-17"}, {Environment: "US/Sandbox", User: "user-17"}}
	for _, user := range []string{
		"", " ", "user-17 ", "user-17\t", "user-17\n", "user-17\x00", "\x00", " user-17", "a\xff", "\xc3\x28", strings.Repeat("x", 256), strings.Repeat("x", 100_000),
	} {
		keys = append(keys, keyOf(user))
		refused(t, api.ErrArgument, "%.20q", user)(store.Save(t.Context(), keyOf(user), sample(user17, 1)))
	}
	for _, key := range keys {
		requireAbsent(t, store, key, record.Version)
		same()
	}
	refused(t, tokenstore.ErrLeased, "the lease stays")(store.Lease(t.Context(), leaseOf(record, "b"), long))
}

func environments(t *testing.T, open opener) {
	store := open()
	var records []tokenstore.Record
	for i, environment := range []api.Environment{usSandbox, caSandbox, usLive} {
		key := tokenstore.Key{Environment: environment, User: "user-17"}
		refused(t, tokenstore.ErrNoRecord)(store.Load(t.Context(), key))
		records = append(records, save(t, store, key, i))
	}
	require.NoError(t, store.DeleteVersion(t.Context(), records[0].Key, records[0].Version))
	for _, record := range records[1:] {
		requireSame(t, record, load(t, store, record.Key))
		take(t, store, record, "a", long)
	}
}
