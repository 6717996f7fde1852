package sqlstore

import (
	"fmt"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/tokenjson"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

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
