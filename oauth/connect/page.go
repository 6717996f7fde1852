package connect

import (
	"cmp"
	"net/http"
	"net/url"

	"github.com/dispensary-go/dispensary/internal/webpage"
)

// pageText is the content and the status of a default page. again adds a link that starts the
// flow again.
type pageText struct {
	status      int
	title, text string
	again       bool
}

// pages contains a page for each outcome except success.
var pages = map[Outcome]pageText{
	OutcomeCanceled:       {http.StatusOK, "Not connected", "You did not authorize the connection, so nothing has changed.", true},
	OutcomeNotSignedIn:    {http.StatusUnauthorized, "Please sign in", "You are not signed in. Sign in, then connect again.", false},
	OutcomeOtherSite:      {http.StatusForbidden, "Connect your dispensary account?", "Another website opened this page. Continue only if you want to connect your dispensary account.", true},
	OutcomeBadLink:        {http.StatusBadRequest, "This link does not work", "The link is incomplete, has expired, was already used or was made for another user or browser, or your browser blocks cookies. Nothing was connected.", true},
	OutcomeOwnerRefused:   {http.StatusForbidden, "Wrong account", "The dispensary account that you chose cannot be connected here. Please use another one.", true},
	OutcomePlatformFailed: {http.StatusBadGateway, "Not connected", "The dispensary cannot be reached or reported an error.", true},
	OutcomeUnavailable:    {http.StatusServiceUnavailable, "Not confirmed", "Something went wrong on our side, so we do not know whether connecting worked. Please try again.", true},
	OutcomeMisconfigured:  {http.StatusInternalServerError, "Not connected", "The connection to the dispensary is not set up correctly. Please contact support.", false},
}

// neutralName is the heading if [Config].Name is empty.
const neutralName = "Dispensary connection"

// DefaultPage writes the response of a [Handler] without a Done hook. It redirects a connected
// user to ReturnTo with status 303. Any other user gets a page in English with the name of
// [Config], the result and the possible next steps. DefaultPage replaces the
// Content-Security-Policy: its only style sheet is inline and allowed by its digest.
func DefaultPage(w http.ResponseWriter, result *Result) {
	if result.Outcome == OutcomeConnected {
		w.Header().Set("Location", result.ReturnTo)
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	text, known := pages[result.Outcome]
	if !known {
		text.status = http.StatusBadRequest
	}
	page := webpage.Notice{Name: cmp.Or(result.name, neutralName), Title: text.title, Text: text.text, Reference: result.requestID()}
	if text.again {
		action := "Try again"
		if result.Outcome == OutcomeOtherSite {
			action = "Connect"
		}
		page.Links = append(page.Links, webpage.Link{URL: "./" + result.startName + "?return_to=" + url.QueryEscape(result.ReturnTo), Text: action})
	}
	page.Links = append(page.Links, webpage.Link{URL: result.ReturnTo, Text: "Continue without connecting"})
	page.Write(w, text.status)
}
