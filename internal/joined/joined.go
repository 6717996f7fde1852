// Package joined takes joined errors apart.
package joined

// Errors returns the errors that were joined with [errors.Join], or wrapped together, to
// err, in their order; err itself where it is one, and none where it is nil.
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
