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

// keyringTime is how long the system's keyring may take, which asks its user to unlock it.
const keyringTime = 3 * time.Second

// keyringName is what the key is called in the keyring.
const keyringName = "dispensary"

// sealKeys returns the keys that seal the tokens of this user of the machine. They are made at
// first: in the system's keyring, or where there is none in a file of their own, which only
// the user can read.
func (p *program) sealKeys(ctx context.Context, folder string) (dispensary.Secret, error) {
	name := filepath.Join(folder, "seal.key")
	kept, err := os.ReadFile(name)
	if err == nil {
		return dispensary.Secret(strings.TrimSpace(string(kept))), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	keys, err := p.fromKeyring(ctx, func() (string, error) { return p.keyring.Get(keyringName, folder) })
	if err == nil {
		return keys, nil
	}
	if _, made := os.Stat(filepath.Join(folder, "tokens.db")); made == nil {
		return "", fmt.Errorf("the key that seals %s is in the system's keyring, which does not give it out: %w", filepath.Join(folder, "tokens.db"), err)
	}
	key, err := seal.GenerateKey(time.Now().UTC().Format("2006-01-02"))
	if err != nil {
		return "", err
	}
	_, err = p.fromKeyring(ctx, func() (string, error) { return "", p.keyring.Set(keyringName, folder, key.Text().Reveal()) })
	if err == nil {
		return key.Text(), nil
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = file.WriteString(key.Text().Reveal() + "\n")
	return key.Text(), errors.Join(err, file.Sync(), file.Close())
}

// keyringStore is a keyring: that of the system, through go-keyring.
type keyringStore interface {
	Get(service, user string) (string, error)
	Set(service, user, password string) error
}

// systemKeyring is that of macOS, Windows, or the Secret Service of a desktop.
type systemKeyring struct{}

// Get implements keyringStore.
func (systemKeyring) Get(service, user string) (string, error) { return keyring.Get(service, user) }

// Set implements keyringStore.
func (systemKeyring) Set(service, user, password string) error {
	return keyring.Set(service, user, password)
}

// fromKeyring asks the keyring, for as long as it may take.
func (p *program) fromKeyring(ctx context.Context, ask func() (string, error)) (dispensary.Secret, error) {
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
		return dispensary.Secret(a.text), a.err
	case <-ctx.Done():
		return "", fmt.Errorf("the keyring did not answer within %s", keyringTime)
	}
}
