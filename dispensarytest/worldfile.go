package dispensarytest

import (
	"fmt"
	"os"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/worldfile"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/textfile"
)

// worldFile is the file of [WithWorldFile].
type worldFile struct {
	name    string
	content []byte
	world   *store.World
}

// WithWorldFile starts a platform with the clinics, people and plans in a JSON file, in place
// of the default world. The file's products are added to the default catalog.
//
//	{
//	  "clinics": [{"name": "Two Rivers", "discount": 10}],
//	  "practitioners": [{"first_name": "Ada", "last_name": "Stone", "email": "ada@ehr.example", "type": "ND", "password": "secret"}],
//	  "staff": [{"first_name": "Joan", "last_name": "Reed", "email": "desk@ehr.example"}],
//	  "patients": [{"first_name": "Max", "last_name": "Test", "email": "max@example.org", "date_of_birth": "1984-03-12",
//	    "gender": "male", "mobile_number": "+15035550123", "discount": 5, "metadata_id": "ehr-1"}],
//	  "products": [{"name": "Own Blend", "brand": "Own", "units": 60, "unit_of_measure": "capsules", "price": "19.99", "status": "available"}],
//	  "plans": [{"patient": "max@example.org", "practitioner": "ada@ehr.example", "state": "draft", "personal_message": "…",
//	    "metadata_id": "plan-1", "products": [{"product": "Own Blend", "units": 2, "refill": true}]}]
//	}
//
// Each clinic needs a practitioner. If there are several clinics, each person names one by
// "clinic". Ids follow from the seed and the order in the file. The error joins all problems
// of the file, each with its path, such as patients[3].email, and without the value.
// [WithSnapshot] overrides the file.
func WithWorldFile(name string) Option {
	return func(s *settings) error {
		content, err := os.ReadFile(name)
		if err != nil {
			return invalid("WithWorldFile", err)
		}
		if content, err = textfile.Decode(content); err != nil {
			return invalid("WithWorldFile", fmt.Errorf("%s: the file %w", name, err))
		}
		s.file = &worldFile{name: name, content: content}
		return nil
	}
}

// buildFile builds the world of the file, once seed and environment are known.
func (s *settings) buildFile() (err error) {
	if s.file == nil {
		return nil
	}
	if s.size != (model.WorldSize{}) {
		return wrong("WithWorldFile", "sets the size of the world: remove the size option")
	}
	if s.file.world, err = worldfile.Build(s.file.content, s.seed, s.environment); err != nil {
		return invalid("WithWorldFile", fmt.Errorf("%s: %w", s.file.name, err))
	}
	return nil
}
