package connect

import (
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// pageText is what a default page says, and with which status. again offers to
// start once more.
type pageText struct {
	status      int
	title, text string
	again       bool
}

// pages has a text for each outcome that is not a success.
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

// pageTemplate has no style and no script: nothing can be injected, and every
// browser and every reader shows it.
var pageTemplate = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{.Title}}</title>
</head>
<body>
<main>
<h1>{{.Title}}</h1>
<p>{{.Text}}</p>
{{- if .Reference}}
<p>For support, quote the reference <code>{{.Reference}}</code>.</p>
{{- end}}
<p>{{if .Again}}<a href="{{.Again}}">{{.Action}}</a> or {{end}}<a href="{{.Back}}">continue without connecting</a></p>
</main>
</body>
</html>
`))

// DefaultPage answers as a [Handler] without a Done hook does: a connected user is
// sent to ReturnTo with status 303, all others get a page in English that says what
// happened and what can be done.
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
	view := struct{ Title, Text, Reference, Again, Action, Back string }{
		Title: text.title, Text: text.text, Reference: result.requestID(), Action: "Try again", Back: result.ReturnTo,
	}
	if text.again {
		view.Again = "./" + result.startName + "?return_to=" + url.QueryEscape(result.ReturnTo)
	}
	if result.Outcome == OutcomeOtherSite {
		view.Action = "Connect"
	}
	var page strings.Builder
	if err := pageTemplate.Execute(&page, view); err != nil { // cannot happen with this template
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(page.Len()))
	w.WriteHeader(text.status)
	_, _ = w.Write([]byte(page.String())) // fails only when the browser went away
}
