package simulation

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/seal"
)

func newKey(n int) seal.Key {
	secret := make([]byte, 32)
	secret[0] = byte(n + 1)
	key, err := seal.NewKey(fmt.Sprintf("key-%d", n), secret)
	if err != nil {
		panic(err)
	}
	return key
}

// open returns a view of the database that can decrypt with every key of the test.
func (w *tokenWorld) open(inner tokenstore.Store) tokenstore.Store {
	var all []seal.Key
	for n := range 4 {
		all = append(all, newKey(n))
	}
	ring, err := seal.NewKeyRing(all...)
	if err != nil {
		panic(err)
	}
	store, err := tokenstore.Sealed(inner, ring)
	if err != nil {
		panic(err)
	}
	return store
}

// ring returns a key ring with every key that replicas can encounter. An older replica can decrypt
// records of a newer one, because all replicas know a key before any of them encrypts with it.
func (w *tokenWorld) ring() *seal.KeyRing {
	var all []seal.Key
	for n := len(w.keys); n < 4; n++ {
		all = append(all, newKey(n).Pending())
	}
	for n := len(w.keys) - 1; n >= 0; n-- {
		all = append(all, w.keys[n])
	}
	ring, err := seal.NewKeyRing(all...)
	if err != nil {
		panic(err)
	}
	return ring
}

func (w *tokenWorld) key(user string) tokenstore.Key {
	return tokenstore.Key{Environment: w.site.Environment, User: user}
}

func (w *tokenWorld) record(user string) (tokenstore.Record, error) {
	return w.view.Load(context.Background(), w.key(user))
}

// authorize stores a new consent, like the end of the browser flow.
func (w *tokenWorld) authorize(user string) {
	who := w.platform.Users()[0]
	issued := w.platform.issue(who)
	w.consents++
	w.know(issued.AccessToken, issued.RefreshToken, user, w.consents)
	store := w.view
	if len(w.keys) > 0 {
		store = w.sealedOn(w.db.MemoryStore)
	}
	token := oauth.Token{
		AccessToken: api.NewSecret(issued.AccessToken), RefreshToken: api.NewSecret(issued.RefreshToken), TokenType: "Bearer",
		CreatedAt: issued.CreatedAt, ExpiresAt: issued.ExpiresAt, Lifetime: defaults.TokenLifetime, UsedAt: time.Now(),
		ResourceOwner: oauth.ResourceOwner{ID: who.ID, Type: who.Type}, Environment: w.site.Environment,
		Clinic: oauth.Clinic{ID: who.ClinicID, IntegrationID: "in_1"},
	}
	if w.consents%4 != 0 { // a schedule is too short for two rejections one minute apart
		token.RejectedAt = time.Now().Add(-time.Hour)
	}
	for _, scope := range issued.Scopes {
		token.Scope += scope + " "
	}
	if err := w.write("Save", w.key(user), func() error {
		_, err := store.Save(context.Background(), w.key(user), token)
		return err
	}); err != nil {
		panic(err)
	}
	delete(w.revoked, user)
}

func (w *tokenWorld) sealedOn(inner tokenstore.Store) tokenstore.Store {
	store, err := tokenstore.Sealed(inner, w.ring())
	if err != nil {
		panic(err)
	}
	return store
}

func (w *tokenWorld) know(access, refresh, user string, consent int) {
	w.consent[access], w.owner[access] = consent, user
	w.consent[refresh], w.owner[refresh] = consent, user
}

// revoke revokes the stored consent on the platform.
func (w *tokenWorld) revoke(user string) {
	record, err := w.record(user)
	if err != nil {
		return
	}
	client, err := oauth.New(w.application(w.platform))
	if err != nil {
		panic(err)
	}
	if err := client.Revoke(context.Background(), record.Token); err == nil {
		w.revoked[user] = true
	}
}

func (w *tokenWorld) application(transport http.RoundTripper) oauth.Config {
	app := w.platform.Application()
	return oauth.Config{
		Site: w.site, ClientID: app.ClientID, ClientSecret: api.NewSecret(app.ClientSecret), RedirectURL: app.RedirectURI,
		Transport: transport, Logger: logtest.NewLogger(&w.platform.logs),
	}
}
