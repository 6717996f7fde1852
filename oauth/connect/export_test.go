package connect

// Reasons of a Result.
var (
	ErrDuplicate = errDuplicate
	ErrOtherSite = errOtherSite
	ErrReturn    = errReturn
)
