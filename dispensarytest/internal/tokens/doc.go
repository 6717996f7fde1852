// Package tokens holds what was granted: codes, access and refresh tokens, the consents
// behind them, and the open forms and sessions of the authorize page.
package tokens
