package oauth

// ErrCallback is the sentinel for other errors of the authorization page.
var ErrCallback = errCallback
