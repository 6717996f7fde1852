package main

import (
	"html/template"
	"log/slog"
	"net/http"

	"github.com/dispensary-go/dispensary"
)

var homePage = template.Must(template.New("home").Parse(`<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Dispensary</title></head>
<body>
{{with .Problem}}
<p>{{.Title}}</p>
{{if .Reauthorize}}<p><a href="/dispensary/connect?return_to=/">Connect the dispensary</a></p>{{end}}
{{else}}
<p>Connected with {{.Clinic}}</p>
{{end}}
<ul>{{range .Orders}}<li>Order {{.}}</li>{{end}}</ul>
<p><a href="/operations/">Operations</a></p>
</body>
</html>
`))

// home shows whether the user is connected, and the orders. It calls the platform as the user.
func (a *app) home(w http.ResponseWriter, r *http.Request) {
	view := struct {
		Clinic  string
		Problem *dispensary.Problem
		Orders  []string
	}{Orders: a.orders.list()}
	var client *dispensary.Client
	user, err := signedIn(r)
	if err == nil {
		client, err = a.dispensary.Accounts.Client(r.Context(), user)
	}
	if err == nil {
		clinic, failure := client.Clinic.Get(r.Context())
		if err = failure; err == nil {
			view.Clinic = clinic.Name
		}
	}
	if view.Problem = dispensary.ProblemOf(err); err != nil && !view.Problem.Reauthorize {
		slog.WarnContext(r.Context(), "home", "error", err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = homePage.Execute(w, view) // fails only if the browser is gone
}
