// Tink keeps tokens sealed with a keyset of Google's Tink library, which can in turn
// be kept by a key management service. Its AEAD has the shape that tokens.Sealed asks
// for, so it plugs in as it is.
//
//	go run ./examples/tink
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer) error {
	// A program reads its keyset from where it is kept, sealed by a key of the
	// key management service: keyset.Read(reader, kmsAEAD).
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return err
	}
	primitive, err := aead.New(handle)
	if err != nil {
		return err
	}

	rows := tokens.NewMemoryStore() // in production package sqlstore
	store, err := tokens.Sealed(rows, primitive)
	if err != nil {
		return err
	}

	sandbox := dispensary.Environment{Region: dispensary.US, Stage: dispensary.Sandbox}
	ada := tokens.Key{Environment: sandbox, User: "ada"}
	token := oauth.Token{AccessToken: dispensary.NewSecret("ada's token"), RefreshToken: dispensary.NewSecret("ada's refresh token"), Environment: sandbox}
	if _, err := store.Save(ctx, ada, token); err != nil {
		return err
	}

	record, err := store.Load(ctx, ada)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "through the sealed store the token is the one that was saved:", record.Token.AccessToken == token.AccessToken)

	row, err := rows.Load(ctx, ada)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "the row below holds a sealed one:", tokens.IsSealed(row.Token))

	// Copying the row to another user does not help an attacker: environment and user
	// are part of what is sealed.
	mallory := tokens.Key{Environment: sandbox, User: "mallory"}
	if _, err := rows.Save(ctx, mallory, row.Token); err != nil {
		return err
	}
	_, err = store.Load(ctx, mallory)
	fmt.Fprintln(out, "copied to another user it does not open:", errors.Is(err, tokens.ErrUnreadable))
	return nil
}
