package sqlstore

import (
	"fmt"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/sqldb"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/tokenjson"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// scripts create the tables. A release that changes them raises the version in the last statement.
var scripts = map[dialect]string{
	postgreSQL: `
CREATE TABLE IF NOT EXISTS dispensary_oauth_schema (
	id      integer PRIMARY KEY,
	version integer NOT NULL,
	oldest  integer NOT NULL
);
CREATE TABLE IF NOT EXISTS dispensary_oauth_tokens (
	environment   text   COLLATE "C" NOT NULL,
	username      text   COLLATE "C" NOT NULL,
	version       bigint NOT NULL,
	state         text   NOT NULL,
	reason        text   NOT NULL,
	access_token  bytea  NOT NULL,
	refresh_token bytea  NOT NULL,
	details       bytea  NOT NULL,
	clinic_id     text   COLLATE "C" NOT NULL,
	due_at        bigint,
	used_at       bigint NOT NULL,
	lease_owner   text   COLLATE "C" NOT NULL,
	lease_until   bigint NOT NULL,
	PRIMARY KEY (environment, username)
) WITH (fillfactor = 80);
CREATE INDEX IF NOT EXISTS dispensary_oauth_tokens_due ON dispensary_oauth_tokens (environment, due_at) WHERE state = 'active' AND due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS dispensary_oauth_tokens_clinic ON dispensary_oauth_tokens (environment, clinic_id, username) WHERE clinic_id <> '';
CREATE TABLE IF NOT EXISTS dispensary_oauth_flows (
	environment   text   COLLATE "C" NOT NULL,
	flow          text   COLLATE "C" NOT NULL,
	owner         text   COLLATE "C" NOT NULL,
	claimed_until bigint NOT NULL,
	result        text   NOT NULL,
	PRIMARY KEY (environment, flow)
);
CREATE INDEX IF NOT EXISTS dispensary_oauth_flows_end ON dispensary_oauth_flows (claimed_until);
INSERT INTO dispensary_oauth_schema (id, version, oldest) VALUES (1, 1, 1) ON CONFLICT (id) DO UPDATE SET version = excluded.version, oldest = excluded.oldest`,
	mySQL: `
CREATE TABLE IF NOT EXISTS dispensary_oauth_schema (
	id      integer PRIMARY KEY,
	version integer NOT NULL,
	oldest  integer NOT NULL
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS dispensary_oauth_tokens (
	environment   varbinary(32)  NOT NULL,
	username      varbinary(255) NOT NULL,
	version       bigint         NOT NULL,
	state         varbinary(32)  NOT NULL,
	reason        varbinary(64)  NOT NULL,
	access_token  mediumblob     NOT NULL,
	refresh_token mediumblob     NOT NULL,
	details       mediumblob     NOT NULL,
	clinic_id     varbinary(255) NOT NULL,
	due_at        bigint,
	used_at       bigint         NOT NULL,
	lease_owner   varbinary(255) NOT NULL,
	lease_until   bigint         NOT NULL,
	PRIMARY KEY (environment, username),
	KEY dispensary_oauth_tokens_due (environment, state, due_at),
	KEY dispensary_oauth_tokens_clinic (environment, clinic_id, username)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS dispensary_oauth_flows (
	environment   varbinary(32)  NOT NULL,
	flow          varbinary(255) NOT NULL,
	owner         varbinary(255) NOT NULL,
	claimed_until bigint         NOT NULL,
	result        varbinary(64)  NOT NULL,
	PRIMARY KEY (environment, flow),
	KEY dispensary_oauth_flows_end (claimed_until)
) ENGINE = InnoDB;
REPLACE INTO dispensary_oauth_schema (id, version, oldest) VALUES (1, 1, 1)`,
	sqlite: `
CREATE TABLE IF NOT EXISTS dispensary_oauth_schema (
	id      INTEGER PRIMARY KEY,
	version INTEGER NOT NULL,
	oldest  INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS dispensary_oauth_tokens (
	environment   TEXT    NOT NULL,
	username      TEXT    NOT NULL,
	version       INTEGER NOT NULL,
	state         TEXT    NOT NULL,
	reason        TEXT    NOT NULL,
	access_token  BLOB    NOT NULL,
	refresh_token BLOB    NOT NULL,
	details       BLOB    NOT NULL,
	clinic_id     TEXT    NOT NULL,
	due_at        INTEGER,
	used_at       INTEGER NOT NULL,
	lease_owner   TEXT    NOT NULL,
	lease_until   INTEGER NOT NULL,
	PRIMARY KEY (environment, username)
) STRICT;
CREATE INDEX IF NOT EXISTS dispensary_oauth_tokens_due ON dispensary_oauth_tokens (environment, due_at) WHERE state = 'active' AND due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS dispensary_oauth_tokens_clinic ON dispensary_oauth_tokens (environment, clinic_id, username) WHERE clinic_id <> '';
CREATE TABLE IF NOT EXISTS dispensary_oauth_flows (
	environment   TEXT    NOT NULL,
	flow          TEXT    NOT NULL,
	owner         TEXT    NOT NULL,
	claimed_until INTEGER NOT NULL,
	result        TEXT    NOT NULL,
	PRIMARY KEY (environment, flow)
) STRICT;
CREATE INDEX IF NOT EXISTS dispensary_oauth_flows_end ON dispensary_oauth_flows (claimed_until);
REPLACE INTO dispensary_oauth_schema (id, version, oldest) VALUES (1, 1, 1)`,
}

// Schema returns the SQL of [Open] that creates the tables, for programs that create them with
// another tool and call [OpenExisting]. database is "postgresql", "mysql" (also for MariaDB)
// or "sqlite". For any other value Schema returns an [*api.ArgumentError].
func Schema(database string) (string, error) {
	script, ok := scripts[dialect(database)]
	if !ok {
		return "", &api.ArgumentError{Field: "sqlstore.Schema database", Reason: `must be "postgresql", "mysql" or "sqlite"`}
	}
	return script, nil
}

func (d dialect) schema() sqldb.Schema {
	return sqldb.Schema{Dialect: string(d), Script: scripts[d], Migrate: "sqlstore.Open"}
}

// columnsOf returns the columns of a token.
func columnsOf(key tokenstore.Key, token oauth.Token) (values, error) {
	encoded, err := tokenjson.Marshal(token)
	if err != nil {
		return nil, fmt.Errorf("sqlstore: encode: %w", err)
	}
	v := keyValues(key)
	v["access"], v["refresh"], v["details"] = []byte(token.AccessToken.Reveal()), []byte(token.RefreshToken.Reveal()), encoded
	v["clinic"], v["due"], v["used"] = token.Clinic.ID, nil, int64(0)
	if due := tokenjson.Micros(tokenstore.DueAt(token)); due != nil {
		v["due"] = *due
	}
	if used := tokenjson.Micros(token.UsedAt); used != nil {
		v["used"] = *used
	}
	return v, nil
}

// keyValues returns the columns of a key.
func keyValues(key tokenstore.Key) values {
	return values{"environment": key.Environment.String(), "username": key.User}
}

// scanner is a row, or a result positioned at a row.
type scanner interface{ Scan(dest ...any) error }

// scan reads the columns of a record in the given environment, and then the columns for more.
func scan(s scanner, environment api.Environment, more ...any) (tokenstore.Record, error) {
	var access, refresh, encoded []byte
	record := tokenstore.Record{Key: tokenstore.Key{Environment: environment}}
	dest := []any{&record.Key.User, &record.Version, &record.State, &record.Reason, &access, &refresh, &encoded}
	if err := s.Scan(append(dest, more...)...); err != nil {
		return tokenstore.Record{}, err
	}
	err := fill(&record, encoded)
	record.Token.AccessToken, record.Token.RefreshToken = api.NewSecret(string(access)), api.NewSecret(string(refresh))
	return record, err
}

// errDetails does not wrap the decoder's error, which may contain stored data.
var errDetails = fmt.Errorf("%w: the column details was changed by another program", tokenstore.ErrUnreadable)

// fill decodes the fields of the token other than its secrets.
func fill(record *tokenstore.Record, encoded []byte) error {
	record.UpdatedAt = time.UnixMicro(record.Version).UTC()
	record.Token.Environment = record.Key.Environment
	token, _, err := tokenjson.Unmarshal(encoded)
	if err != nil {
		return errDetails
	}
	token.Environment = record.Key.Environment
	record.Token = token
	return nil
}
