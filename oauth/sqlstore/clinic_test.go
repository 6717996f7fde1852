package sqlstore_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// A database of a release that kept no clinics gets the column in place. Replicas of that
// release write on as before; their users are found by their clinic after the next write
// of this one.
func TestMigrateAddsClinicsInPlace(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		db := d.migrated(t)
		dropIndex := "DROP INDEX {tokens}_clinic"
		if d.dialect == sqlstore.MySQL {
			dropIndex += " ON {tokens}"
		}
		d.exec(t, db, dropIndex)
		d.exec(t, db, "ALTER TABLE {tokens} DROP COLUMN clinic_id")
		d.exec(t, db, "DELETE FROM "+d.prefix+"oauth_schema WHERE version = 2")
		blobs := "X'61', X'72', X'7B7D'" // a, r, {}
		if d.dialect == sqlstore.PostgreSQL {
			blobs = "'a', 'r', '{}'"
		}
		old := "INSERT INTO {tokens} (environment, username, version, state, reason, access_token, refresh_token, details, used_at, lease_owner, lease_until)" +
			" VALUES ('us/sandbox', 'before', 1, 'active', '', " + blobs + ", 0, '', 0)"
		d.exec(t, db, old)
		require.NoError(t, sqlstore.Migrate(t.Context(), db, d.dialect, d.config()))
		d.exec(t, db, "DELETE FROM {tokens}")
		d.exec(t, db, old)

		store := d.store(t, db)
		key := tokens.Key{Environment: user17.Environment, User: "before"}
		record, err := store.Load(t.Context(), key)
		require.NoError(t, err)
		assert.Zero(t, record.Token.Clinic)
		clinics, err := store.ListClinics(t.Context(), key.Environment, "", 5)
		require.NoError(t, err)
		assert.Empty(t, clinics)
		record.Token.Clinic = oauth.Clinic{ID: "cl-1", IntegrationID: "int-1"}
		_, err = store.Save(t.Context(), key, record.Token)
		require.NoError(t, err)
		listed, err := store.List(t.Context(), tokens.Listing{Environment: key.Environment, ClinicID: "cl-1", Limit: 5})
		require.NoError(t, err)
		require.Len(t, listed, 1)
		assert.Equal(t, record.Token.Clinic, listed[0].Token.Clinic)
	})
}
