package oauth

// ErrCallback is the sentinel of any other error of the authorization page.
var ErrCallback = errCallback
