package storetest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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
		rejected(t, tokenstore.ErrNoRecord, "%q is equal to an earlier user", user)(store.Load(t.Context(), keyOf(user)))
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
		rejected(t, tokenstore.ErrNoRecord, "%q", user)(store.Load(t.Context(), keyOf(user)))
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
		rejected(t, api.ErrArgument, "%.20q", user)(store.Save(t.Context(), keyOf(user), sample(user17, 1)))
	}
	for _, key := range keys {
		requireAbsent(t, store, key, record.Version)
		same()
	}
	rejected(t, tokenstore.ErrLeased, "the lease stays")(store.Lease(t.Context(), leaseOf(record, "b"), long))
}

func environments(t *testing.T, open opener) {
	store := open()
	var records []tokenstore.Record
	for i, environment := range []api.Environment{usSandbox, caSandbox, usLive} {
		key := tokenstore.Key{Environment: environment, User: "user-17"}
		rejected(t, tokenstore.ErrNoRecord)(store.Load(t.Context(), key))
		records = append(records, save(t, store, key, i))
	}
	require.NoError(t, store.DeleteVersion(t.Context(), records[0].Key, records[0].Version))
	for _, record := range records[1:] {
		requireSame(t, record, load(t, store, record.Key))
		take(t, store, record, "a", long)
	}
}

// lists tests [tokenstore.Store].List and ListClinics.
var lists = map[string]func(*testing.T, opener){
	"List":    list,
	"Clinics": clinics,
}

// listed returns the records of all pages of a listing.
func listed(t *testing.T, store tokenstore.Store, listing tokenstore.Listing) (all []tokenstore.Record) {
	t.Helper()
	for {
		page, err := store.List(t.Context(), listing)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), listing.Limit)
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		listing.After = page[len(page)-1].Key.User
	}
}

func users(records []tokenstore.Record) []string {
	names := []string{}
	for _, record := range records {
		names = append(names, record.Key.User)
	}
	return names
}

func list(t *testing.T, open opener) {
	store := open()
	assert.Empty(t, listed(t, store, tokenstore.Listing{Environment: usSandbox, Limit: 2}))
	want := map[string]tokenstore.Record{}
	for i, user := range []string{"b", "B", "ä", "a", "zz", "z", "é", "日本", "a%", "a_"} {
		want[user] = save(t, store, keyOf(user), i)
	}
	save(t, store, tokenstore.Key{Environment: caSandbox, User: "c"}, 1)
	want["b"] = mark(t, store, want["b"])
	for _, limit := range []int{1, 3, 100} {
		all := listed(t, store, tokenstore.Listing{Environment: usSandbox, Limit: limit})
		require.Equal(t, []string{"B", "a", "a%", "a_", "b", "z", "zz", "ä", "é", "日本"}, users(all), "ordered by their bytes")
		for _, record := range all {
			expected := want[record.Key.User]
			expected.Token.AccessToken, expected.Token.RefreshToken, expected.Token.Replaced = api.Secret{}, api.Secret{}, nil
			requireSame(t, expected, record)
		}
		assert.Len(t, listed(t, store, tokenstore.Listing{Environment: usSandbox, State: tokenstore.StateActive, Limit: limit}), len(want)-1)
		assert.Equal(t, []string{"b"}, users(listed(t, store, tokenstore.Listing{Environment: usSandbox, State: tokenstore.StateReauthorize, Limit: limit})))
	}
	assert.Empty(t, listed(t, store, tokenstore.Listing{Environment: usLive, Limit: 5}))
}

// clinics: a list must find users by the clinic of their last token, after a write by any
// method.
func clinics(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	clinics := func(environment api.Environment, limit int) (all []string) {
		for after := ""; ; after = all[len(all)-1] {
			page, err := store.ListClinics(ctx, environment, after, limit)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), limit)
			if len(page) == 0 {
				return all
			}
			all = append(all, page...)
		}
	}
	of := func(clinic string, limit int, state tokenstore.State) []string {
		return users(listed(t, store, tokenstore.Listing{Environment: usSandbox, ClinicID: clinic, State: state, Limit: limit}))
	}
	assert.Empty(t, clinics(usSandbox, 2))
	assert.Empty(t, of("cl-1", 2, ""))
	records := map[string]tokenstore.Record{}
	for user, clinic := range map[string]string{"d": "cl-1", "a": "cl-1", "c": "CL-1", "b": "é", "f": "a%", "e": "a_", "z": ""} {
		token := sample(keyOf(user), 1)
		token.Clinic.ID = clinic
		saved := written(t)(store.Save(ctx, keyOf(user), token))
		records[user] = saved
	}
	save(t, store, tokenstore.Key{Environment: caSandbox, User: "a"}, 2)
	for _, limit := range []int{1, 2, 100} {
		assert.Equal(t, []string{"CL-1", "a%", "a_", "cl-1", "é"}, clinics(usSandbox, limit), "ordered by their bytes")
		assert.Equal(t, []string{"cl-2"}, clinics(caSandbox, limit))
		assert.Equal(t, []string{"a", "d"}, of("cl-1", limit, ""))
		assert.Equal(t, []string{"f"}, of("a%", limit, ""))
		assert.Len(t, of("", limit, ""), len(records), "an empty ID lists all clinics")
	}
	assert.Empty(t, clinics(usSandbox, 0))

	records["a"] = mark(t, store, records["a"])
	assert.Equal(t, "cl-1", records["a"].Token.Clinic.ID)
	assert.Equal(t, []string{"d"}, of("cl-1", 5, tokenstore.StateActive))
	moved := records["d"].Token
	moved.Clinic.ID = "é"
	written(t)(store.Commit(ctx, take(t, store, records["d"], "x", long), moved))
	assert.Equal(t, []string{"a"}, of("cl-1", 5, ""))
	assert.Equal(t, []string{"b", "d"}, of("é", 5, ""))
	require.NoError(t, store.DeleteVersion(ctx, keyOf("a"), records["a"].Version))
	assert.Equal(t, []string{"CL-1", "a%", "a_", "é"}, clinics(usSandbox, 5), "a clinic without users is not listed")
}
