package dispensarytest

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/jsonrewrite"
)

// rewriter is what bodies go through on their way out; nil where nothing does.
func (s *Server) rewriter(r *readings) func([]byte) []byte {
	if !r.dropNulls && s.set.compatible == 0 {
		return nil
	}
	return func(body []byte) []byte {
		tree, err := jsonrewrite.Parse(body)
		if err != nil {
			panic(err) // only bodies of ours get here
		}
		if r.dropNulls {
			tree.DropNulls()
		}
		if s.set.compatible != 0 {
			jsonrewrite.NewMutator(s.set.compatible, body).Mutate(tree)
		}
		return tree.Encode(nil)
	}
}
