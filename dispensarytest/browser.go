package dispensarytest

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Browser is the web browser of one of the platform's users. It stores cookies, follows
// redirects, and fills in the platform's forms. So a test can walk through an application's
// whole authorization flow over HTTP, on the real pages.
type Browser struct {
	// Client is the browser's own HTTP client. Use it to sign the user in to the application
	// under test, or set its Jar to one with cookies of the application.
	Client *http.Client

	user model.User
}

// Browser returns a browser for user, who is not signed in yet. The zero User is the first
// practitioner. Browser panics if the platform does not have the user. The browser always
// enters the user's correct password.
func (s *Server) Browser(user model.User) *Browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		panic(err) // cookiejar never returns an error
	}
	client := *s.HTTPClient()
	client.Jar = jar
	return &Browser{user: s.store.User(user), Client: &client}
}

// SetCookie stores a cookie for the site at address, such as the session of a user who is
// signed in to the application under test:
//
//	browser := fake.Browser(user)
//	err := browser.SetCookie(app.URL, &http.Cookie{Name: "session", Value: sessions.New(user)})
//	response, err := browser.Authorize(ctx, app.URL+"/dispensary/connect")
//
// SetCookie fails if a browser would not send the cookie to address: because of its
// Domain, Path, Expires or MaxAge, or because it is Secure and address is plain HTTP.
func (b *Browser) SetCookie(address string, cookie *http.Cookie) error {
	site, err := url.Parse(address)
	if err != nil || site.Host == "" {
		return fmt.Errorf("dispensarytest: SetCookie: address %q is not an absolute URL", address)
	}
	if err := cookie.Valid(); err != nil {
		return fmt.Errorf("dispensarytest: SetCookie: %w", err)
	}
	b.Client.Jar.SetCookies(site, []*http.Cookie{cookie})
	for _, sent := range b.Client.Jar.Cookies(site) {
		if sent.Name == cookie.Name && sent.Value == cookie.Value {
			return nil
		}
	}
	return fmt.Errorf("dispensarytest: SetCookie: a browser does not send cookie %q to %s; check Domain, Path, Secure and its expiry", cookie.Name, site.Host)
}

// Authorize opens a URL that leads to the authorization page: the page itself, or an
// application's link that redirects to it. It signs in there, unless the browser is already
// signed in, and authorizes. It returns the application's response to the redirect that
// follows. The caller closes the response body.
//
// It fails if the URL does not lead to the page, for example if the application sends an
// unknown client_id or redirect_uri.
func (b *Browser) Authorize(ctx context.Context, address string) (*http.Response, error) {
	return b.decide(ctx, b.Client, address, "authorize")
}

// Cancel is like [Browser.Authorize], but cancels on the consent page.
func (b *Browser) Cancel(ctx context.Context, address string) (*http.Response, error) {
	return b.decide(ctx, b.Client, address, "cancel")
}

// Approve is like [Browser.Authorize], for an application that does not run. It returns the
// URL of the redirect, with code and state, and does not open it.
func (s *Server) Approve(authorizeURL string, user model.User) (*url.URL, error) {
	return s.Browser(user).stop(authorizeURL)
}

// stop authorizes and returns the URL of the redirect that follows.
func (b *Browser) stop(address string) (*url.URL, error) {
	staying := *b.Client
	staying.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := b.decide(context.Background(), &staying, address, "authorize")
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close() // a redirect has no body to read
	back, err := response.Location()
	if err != nil {
		return nil, fmt.Errorf("dispensarytest: the platform did not redirect the browser: status %d", response.StatusCode)
	}
	return back, nil
}

// decide signs in if needed, and sends the decision with the client last.
func (b *Browser) decide(ctx context.Context, last *http.Client, address, decision string) (*http.Response, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("dispensarytest: the browser cannot open this address: %w", err)
	}
	page, err := readPage(visit(ctx, b.Client, http.MethodGet, target, nil))
	if err != nil {
		return nil, err
	}
	if page.consent && !strings.Contains(page.text, "("+b.user.Email+")") {
		if page, err = readPage(page.submit(ctx, b.Client, url.Values{"decision": {"switch"}})); err != nil {
			return nil, err
		}
	}
	if !page.consent {
		page, err = readPage(page.submit(ctx, b.Client, url.Values{
			"email": {b.user.Email}, "password": {b.user.Password}, "decision": {"signin"},
		}))
		if err != nil {
			return nil, err
		}
	}
	return page.submit(ctx, last, url.Values{"decision": {decision}})
}

// openPage is a page of the platform with a form.
type openPage struct {
	address *url.URL
	flow    string // the hidden field of its form
	text    string
	consent bool // a user is signed in
}

// flowField matches the hidden field of every form on the authorization page.
var flowField = regexp.MustCompile(`name="flow" value="([^"]+)"`)

// readPage parses a response, which must be a page with a form.
func readPage(response *http.Response, err error) (*openPage, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("dispensarytest: browser: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("dispensarytest: the browser reached a page with status %d", response.StatusCode)
	}
	hidden := flowField.FindSubmatch(body)
	if hidden == nil {
		return nil, errors.New("dispensarytest: the browser did not reach the authorization page")
	}
	text := html.UnescapeString(string(body))
	return &openPage{
		address: response.Request.URL, flow: string(hidden[1]), text: text, consent: strings.Contains(text, `value="switch"`),
	}, nil
}

// submit sends the page's form, with its hidden field and the given fields.
func (p *openPage) submit(ctx context.Context, client *http.Client, fields url.Values) (*http.Response, error) {
	fields.Set("flow", p.flow)
	return visit(ctx, client, http.MethodPost, p.address, fields)
}

func visit(ctx context.Context, client *http.Client, method string, target *url.URL, form url.Values) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, target.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, fmt.Errorf("dispensarytest: browser: %w", err)
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("dispensarytest: browser: %w", err)
	}
	return response, nil
}
