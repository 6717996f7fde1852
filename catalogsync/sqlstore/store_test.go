package sqlstore_test

import (
	"testing"

	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/internal/testkit/catalogstoretest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			catalogstoretest.Run(t, func(t *testing.T) func() catalogstore.Store {
				d := newDatabase(t, driver)
				return func() catalogstore.Store { return d.store(t, d.open(t)) }
			})
		})
	}
}
