package view

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/jsonrewrite"
)

// Rewriter is what bodies go through on their way out; nil where nothing does.
func Rewriter(r *behavior.Set, compatible uint64) func([]byte) []byte {
	if !r.DropNulls && compatible == 0 {
		return nil
	}
	return func(body []byte) []byte {
		tree, err := jsonrewrite.Parse(body)
		if err != nil {
			panic(err) // only bodies of ours get here
		}
		if r.DropNulls {
			tree.DropNulls()
		}
		if compatible != 0 {
			jsonrewrite.NewMutator(compatible, body).Mutate(tree)
		}
		return tree.Encode(nil)
	}
}
