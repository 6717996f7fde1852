package httpapi

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
)

// readPerson takes over names and address; a new person needs all three.
func readPerson(f *form, first, last, email *string, isNew bool) {
	f.word("first_name", isNew).change(first)
	f.word("last_name", isNew).change(last)
	address := f.word("email", isNew)
	if address.is != "" && !store.ValidEmail(address.is) {
		f.complain("email", "is not an e-mail address")
	}
	address.change(email)
}

func readMetadata(f *form, id *string) {
	metadata := f.object("metadata")
	switch value, sent := f.values["metadata"]; {
	case metadata != nil:
		metadata.text("id").change(id)
	case sent && value == nil:
		*id = "" // null takes the identifier away: an assumption
	}
}

func checkUserEmail(w *store.World, f *form, email, id string) {
	if email != "" && w.UserEmailTaken(email, id) {
		f.complain("email", "has already been taken")
	}
}
