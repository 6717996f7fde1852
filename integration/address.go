package integration

import (
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary"
)

// memory is the scheme of stores and inboxes in memory.
const memory = "memory"

// address is the parsed URL of a store or an inbox.
type address struct {
	scheme string
	name   string // as returned by Driver.Parse
	driver Driver // zero in memory
}

// durable reports whether the data survives the process.
func (a address) durable() bool { return a.scheme != memory }

// isFile reports whether the name is the path of a file.
func (a address) isFile() bool { return a.driver.Private == nil }

// parseAddress parses the URL of a store, or of an inbox. problem is "" if the URL is valid. It never
// repeats the URL, because that may contain a password.
func parseAddress(text dispensary.Secret, inbox bool) (at address, problem string) {
	own := []string{"postgres", "mysql", "sqlite", memory}
	if inbox {
		own = []string{"postgres", "sqlite", memory}
	}
	choice := "begin with one of " + strings.Join(own, ":, ") + ":"
	scheme, rest, _ := strings.Cut(text.Reveal(), ":")
	if scheme == "postgresql" {
		scheme = "postgres"
	}
	driver, registered := drivers[scheme]
	switch {
	case text.IsZero():
		return at, "is empty: it must " + choice
	case scheme == memory && rest != "":
		return at, "must be memory: without a name"
	case scheme == memory:
		return address{scheme: memory}, ""
	case !registered && slices.Contains(own, scheme):
		return at, `needs a driver in the program: import _ "github.com/dispensary-go/dispensary/integration/` + scheme + `"`
	case !registered || inbox && driver.OpenInbox == nil:
		return at, "must " + choice
	}
	name, err := driver.Parse(text.Reveal())
	if err != nil {
		return at, err.Error()
	}
	return address{scheme, name, driver}, ""
}
