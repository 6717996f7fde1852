package sqlstore_test

import (
	"testing"

	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/internal/testkit/catalogstoretest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			catalogstoretest.Run(t, func(t *testing.T) func() catalogsync.Store {
				d := newDatabase(t, driver)
				return func() catalogsync.Store { return d.store(t, d.open(t)) }
			})
		})
	}
}
