package dispensarytest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
)

// Browser is the web browser of one of the platform's users: it keeps cookies,
// follows redirects, and fills in the platform's forms. With it a test walks an
// application's whole authorization flow over HTTP, through the real pages.
type Browser struct {
	user   User
	client *http.Client
}

// Browser returns a browser of user, who is signed in nowhere yet.
func (s *Server) Browser(user User) *Browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		panic(err) // cookiejar returns none
	}
	client := *s.HTTPClient()
	client.Jar = jar
	return &Browser{user: s.userLike(user), client: &client}
}

// Authorize opens an address that leads to the authorization page: the page
// itself, or an application's own link that redirects to it. It signs in there,
// authorizes, and returns what the application answers to the redirect that
// follows. The caller closes the answer's body.
func (b *Browser) Authorize(ctx context.Context, address string) (*http.Response, error) {
	return b.decide(ctx, address, "authorize")
}

// Cancel does as [Browser.Authorize] does, but cancels when asked for consent.
func (b *Browser) Cancel(ctx context.Context, address string) (*http.Response, error) {
	return b.decide(ctx, address, "cancel")
}

func (b *Browser) decide(ctx context.Context, address, decision string) (*http.Response, error) {
	page, err := b.open(ctx, address)
	if err != nil {
		return nil, err
	}
	page, err = b.submit(ctx, page, url.Values{
		"email": {b.user.Email}, "password": {b.user.Password}, "decision": {"signin"},
	})
	if err != nil {
		return nil, err
	}
	form, err := page.form(url.Values{"decision": {decision}})
	if err != nil {
		return nil, err
	}
	return b.send(ctx, http.MethodPost, page.address, form)
}

// openPage is a page of the platform with a form on it.
type openPage struct {
	address *url.URL
	html    string
}

func (b *Browser) open(ctx context.Context, address string) (*openPage, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("dispensarytest: the browser cannot open this address: %w", err)
	}
	return b.read(b.send(ctx, http.MethodGet, target, nil))
}

func (b *Browser) submit(ctx context.Context, page *openPage, fields url.Values) (*openPage, error) {
	form, err := page.form(fields)
	if err != nil {
		return nil, err
	}
	return b.read(b.send(ctx, http.MethodPost, page.address, form))
}

// flowInput is the hidden field that every form of the authorization page has.
var flowInput = regexp.MustCompile(`name="flow" value="([^"]+)"`)

// form adds the page's hidden field to what the user filled in.
func (p *openPage) form(fields url.Values) (url.Values, error) {
	hidden := flowInput.FindStringSubmatch(p.html)
	if hidden == nil {
		return nil, errors.New("dispensarytest: the browser did not come to the authorization page")
	}
	fields.Set("flow", hidden[1])
	return fields, nil
}

func (b *Browser) send(ctx context.Context, method string, target *url.URL, form url.Values) (*http.Response, error) {
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	request, err := http.NewRequestWithContext(ctx, method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("dispensarytest: browser: %w", err)
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := b.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("dispensarytest: browser: %w", err)
	}
	return response, nil
}

func (b *Browser) read(response *http.Response, err error) (*openPage, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	html, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("dispensarytest: browser: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("dispensarytest: the browser came to a page with status %d", response.StatusCode)
	}
	return &openPage{address: response.Request.URL, html: string(html)}, nil
}
