package environ

// Errors returns the errors that [errors.Join] or fmt.Errorf with several %w joined to err, in
// order. It returns err itself if err is a single error, and no errors if err is nil.
func Errors(err error) []error {
	several, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	var all []error
	for _, one := range several.Unwrap() {
		all = append(all, Errors(one)...)
	}
	return all
}
