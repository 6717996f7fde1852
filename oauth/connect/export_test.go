package connect

// Errors of a Result.
var (
	ErrDuplicate = errDuplicate
	ErrOtherSite = errOtherSite
	ErrReturn    = errReturn
)
