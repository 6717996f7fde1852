package dispensarytest

// rewriter is what bodies go through on their way out; nil where nothing does.
func (s *Server) rewriter(r *readings) func([]byte) []byte {
	if !r.dropNulls && s.set.compatible == 0 {
		return nil
	}
	return func(body []byte) []byte {
		tree, err := parseTree(body)
		if err != nil {
			panic(err) // only bodies of ours get here
		}
		if r.dropNulls {
			tree.dropNulls()
		}
		if s.set.compatible != 0 {
			newMutator(s.set.compatible, body).mutate(tree)
		}
		return tree.encode(nil)
	}
}
