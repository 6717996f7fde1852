package storetest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

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
			whole := want[record.Key.User]
			whole.Token.AccessToken, whole.Token.RefreshToken, whole.Token.Replaced = api.Secret{}, api.Secret{}, nil
			requireSame(t, whole, record)
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
