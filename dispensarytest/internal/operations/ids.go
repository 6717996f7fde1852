package operations

func IDs() []string {
	var ids []string
	for _, op := range All() {
		ids = append(ids, op.ID)
	}
	return ids
}
