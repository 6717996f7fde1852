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

// Browser is the web browser of one of the platform's users: it keeps cookies,
// follows redirects, and fills in the platform's forms. With it a test walks an
// application's whole authorization flow over HTTP, through the real pages.
type Browser struct {
	// Client is the browser's own HTTP client. Use it to sign the user in to the application
	// under test, or set its Jar to one with cookies of the application.
	Client *http.Client

	user model.User
}

// Browser returns a browser of user, who is signed in nowhere yet; the zero User
// is the first practitioner. A user the platform does not have panics. The
// password is always the platform's own: a browser cannot get it wrong.
func (s *Server) Browser(user model.User) *Browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		panic(err) // cookiejar returns none
	}
	client := *s.HTTPClient()
	client.Jar = jar
	return &Browser{user: s.store.User(user), Client: &client}
}

// SetCookie gives the browser a cookie of the site at address, such as the session in
// which the application under test has signed its user in:
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
		return fmt.Errorf("dispensarytest: SetCookie: address %q is no absolute URL", address)
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

// Authorize opens an address that leads to the authorization page: the page
// itself, or an application's own link that redirects to it. It signs in there, unless
// the browser did before, authorizes, and returns what the application answers to the redirect that
// follows. The caller closes the answer's body.
//
// It fails where the way does not lead to the page, as with an application that
// sends a client_id or redirect_uri the platform does not know.
func (b *Browser) Authorize(ctx context.Context, address string) (*http.Response, error) {
	return b.decide(ctx, b.Client, address, "authorize")
}

// Cancel does as [Browser.Authorize] does, but cancels when asked for consent.
func (b *Browser) Cancel(ctx context.Context, address string) (*http.Response, error) {
	return b.decide(ctx, b.Client, address, "cancel")
}

// Approve does as [Browser.Authorize] does for an application that does not run:
// it returns where the platform sends the browser, with code and state, and does
// not go there.
func (s *Server) Approve(authorizeURL string, user model.User) (*url.URL, error) {
	return s.Browser(user).stop(authorizeURL)
}

// stop authorizes, and stays at the redirect that follows.
func (b *Browser) stop(address string) (*url.URL, error) {
	staying := *b.Client
	staying.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := b.decide(context.Background(), &staying, address, "authorize")
	if err != nil {
		return nil, err
	}
	_ = answer.Body.Close() // a redirect has nothing to read
	back, err := answer.Location()
	if err != nil {
		return nil, fmt.Errorf("dispensarytest: the browser was not sent back: status %d", answer.StatusCode)
	}
	return back, nil
}

// decide signs in, and sends the decision through a client of its own choice.
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

// openPage is a page of the platform with a form on it.
type openPage struct {
	address *url.URL
	flow    string // the hidden field of its form
	text    string
	consent bool // a user is signed in
}

// flowField is the hidden field that every form of the authorization page has.
var flowField = regexp.MustCompile(`name="flow" value="([^"]+)"`)

// readPage reads an answer that has to be a page with a form.
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
		return nil, fmt.Errorf("dispensarytest: the browser came to a page with status %d", response.StatusCode)
	}
	hidden := flowField.FindSubmatch(body)
	if hidden == nil {
		return nil, errors.New("dispensarytest: the browser did not come to the authorization page")
	}
	text := html.UnescapeString(string(body))
	return &openPage{
		address: response.Request.URL, flow: string(hidden[1]), text: text, consent: strings.Contains(text, `value="switch"`),
	}, nil
}

// submit sends the page's form, with its hidden field and what the user filled
// in.
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
