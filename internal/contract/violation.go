package contract

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Violation is one departure of an exchange from the contract. It names a place and a
// rule; no value of a header, parameter or body is in it. The name of a key or parameter
// that the contract does not have is.
type Violation struct {
	Operation string // "patients.create"; of a webhook its event type
	Side      Side
	Place     Place
	Path      string // a parameter's or header's name, or a JSON pointer into the body
	Rule      string // a keyword of JSON Schema such as "type", or one of the rules below
}

// Side is the request or the response.
type Side string

// The sides of an exchange.
const (
	Request  Side = "request"
	Response Side = "response"
)

// Place is the part of a message.
type Place string

// The parts of a message.
const (
	InOperation Place = "operation" // the operation as a whole: its name, method or path
	InSecurity  Place = "security"
	InPath      Place = "path"
	InQuery     Place = "query"
	InHeader    Place = "header"
	InStatus    Place = "status"
	InBody      Place = "body"
)

// Rules besides the keywords of JSON Schema.
const (
	RuleUnknown   = "unknown"   // the contract has nothing of this name
	RuleRequired  = "required"  // something is missing
	RuleMismatch  = "mismatch"  // the method or the path is another operation's
	RuleMalformed = "malformed" // it cannot be read at all
)

// String is one line: "patients.get: response body /patient/email: required".
func (v Violation) String() string {
	place := string(v.Place)
	if v.Path != "" {
		place += " " + v.Path
	}
	return fmt.Sprintf("%s: %s %s: %s", v.Operation, v.Side, place, v.Rule)
}

// finding is where in a value which rule was broken.
type finding struct {
	path []string
	rule string
}

// findings takes the engine's error apart. Only instance locations and keywords are
// looked at: its texts quote values.
func findings(err error) []finding {
	var engine *jsonschema.ValidationError
	if errors.As(err, &engine) {
		found := leaves(engine)
		slices.SortFunc(found, func(a, b finding) int {
			return cmp.Or(slices.Compare(a.path, b.path), cmp.Compare(a.rule, b.rule))
		})
		return slices.CompactFunc(found, func(a, b finding) bool {
			return a.rule == b.rule && slices.Equal(a.path, b.path)
		})
	}
	return []finding{{rule: otherRule(err)}}
}

// otherRule names what kin-openapi found without the engine.
func otherRule(err error) string {
	var parse *openapi3filter.ParseError
	var schema *openapi3.SchemaError
	switch {
	case errors.Is(err, openapi3filter.ErrInvalidRequired):
		return RuleRequired
	case errors.Is(err, openapi3filter.ErrInvalidEmptyValue):
		return "minLength"
	case errors.As(err, &schema):
		return schema.SchemaField
	case errors.As(err, &parse):
		return "type"
	default:
		return RuleMalformed
	}
}

func leaves(err *jsonschema.ValidationError) []finding {
	at := err.InstanceLocation
	switch what := err.ErrorKind.(type) {
	case *kind.Required:
		return each(at, what.Missing, RuleRequired)
	case *kind.AdditionalProperties:
		return each(at, what.Properties, RuleUnknown)
	case *kind.FalseSchema:
		return []finding{{at, RuleUnknown}}
	case *kind.OneOf, *kind.AnyOf:
		if len(err.Causes) > 0 {
			return bestBranch(err)
		}
	}
	if len(err.Causes) == 0 {
		return []finding{{at, keyword(err.ErrorKind)}}
	}
	var found []finding
	for _, cause := range err.Causes {
		found = append(found, leaves(cause)...)
	}
	return found
}

func each(at, names []string, rule string) []finding {
	var found []finding
	for _, name := range names {
		found = append(found, finding{append(slices.Clone(at), name), rule})
	}
	return found
}

// bestBranch reports one alternative of oneOf or anyOf: the one that was probably meant.
// An alternative that is refused for its own type, or for a value that one of its
// fields has to have, was not; among the rest the one with the fewest findings is nearest.
func bestBranch(err *jsonschema.ValidationError) []finding {
	at := len(err.InstanceLocation)
	var best []finding
	bestMeant := false
	for _, cause := range err.Causes {
		found := leaves(cause)
		meant := !slices.ContainsFunc(found, func(f finding) bool {
			return f.rule == "type" && len(f.path) == at || (f.rule == "const" || f.rule == "enum") && len(f.path) == at+1
		})
		if best == nil || meant && !bestMeant || meant == bestMeant && len(found) < len(best) {
			best, bestMeant = found, meant
		}
	}
	return best
}

func keyword(what jsonschema.ErrorKind) string {
	path := what.KeywordPath()
	if len(path) == 0 {
		return RuleMalformed
	}
	return path[len(path)-1]
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// pointer writes a path as a JSON pointer.
func pointer(path []string) string {
	var text strings.Builder
	for _, token := range path {
		text.WriteByte('/')
		text.WriteString(pointerEscapes.Replace(token))
	}
	return text.String()
}
