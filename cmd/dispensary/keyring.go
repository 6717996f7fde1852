package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/seal"
)

// keyringTime is the longest wait for the system keyring, which may ask the user to unlock it.
const keyringTime = 3 * time.Second

// sealKeyName is the name of the file with the encryption keys, used without a keyring.
const sealKeyName = "seal.key"

// keyringName is the service name of the key in the keyring.
const keyringName = "dispensary"

// sealKeys returns the encryption keys of this user's token stores in folder. On first use it
// creates a key in the system keyring. If the keyring fails, it creates a file that only the user
// can read. It never creates a key if folder already has a token store.
func sealKeys(ctx context.Context, ring keyringStore, folder string) (dispensary.Secret, error) {
	name := filepath.Join(folder, sealKeyName)
	if kept, err := readKeys(name); !kept.IsZero() || err != nil {
		return kept, err
	}
	keys, err := fromKeyring(ctx, func() (string, error) { return ring.Get(keyringName, folder) })
	if err == nil {
		return keys, nil
	}
	if stores, _ := filepath.Glob(filepath.Join(folder, "tokens-*.db")); len(stores) > 0 {
		return dispensary.Secret{}, fmt.Errorf("the encryption key of %s is in the system keyring: unlock the keyring and retry: %w", stores[0], err)
	}
	key, err := seal.GenerateKey(time.Now().UTC().Format("2006-01-02"))
	if err != nil {
		return dispensary.Secret{}, err
	}
	_, err = fromKeyring(ctx, func() (string, error) { return "", ring.Set(keyringName, folder, key.Text().Reveal()) })
	if err == nil {
		return key.Text(), nil
	}
	return key.Text(), writeKey(name, key)
}

// readKeys returns the encryption keys in a file, or an empty secret if the file does not exist.
func readKeys(name string) (dispensary.Secret, error) {
	content, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return dispensary.Secret{}, nil
	}
	if err != nil {
		return dispensary.Secret{}, err
	}
	keys := dispensary.NewSecret(strings.TrimSpace(string(content)))
	if _, err := seal.ParseKeyRing(keys); err != nil {
		return dispensary.Secret{}, fmt.Errorf("%s contains no encryption key: restore the file, or delete it and the data that it encrypts", name)
	}
	return keys, nil
}

// writeKey writes an encryption key to a new file that only the user can read.
func writeKey(name string, key seal.Key) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(key.Text().Reveal() + "\n")
	return errors.Join(err, file.Sync(), file.Close())
}

// keyringStore is a keyring. Tests replace the system keyring.
type keyringStore interface {
	Get(service, user string) (string, error)
	Set(service, user, password string) error
}

// systemKeyring is the keyring of macOS, of Windows or of the Secret Service of a Linux desktop.
type systemKeyring struct{}

// Get implements keyringStore.
func (systemKeyring) Get(service, user string) (string, error) { return keyring.Get(service, user) }

// Set implements keyringStore.
func (systemKeyring) Set(service, user, password string) error {
	return keyring.Set(service, user, password)
}

// fromKeyring calls ask and waits up to keyringTime.
func fromKeyring(ctx context.Context, ask func() (string, error)) (dispensary.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, keyringTime)
	defer cancel()
	type answer struct {
		text string
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		text, err := ask()
		answered <- answer{text, err}
	}()
	select {
	case a := <-answered:
		return dispensary.NewSecret(a.text), a.err
	case <-ctx.Done():
		return dispensary.Secret{}, fmt.Errorf("the keyring did not respond within %s", keyringTime)
	}
}
