package httpapi

import (
	"net/http"
	"strconv"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
)

// tokenView is the oauth object. API section: "Oauth token".
type tokenView struct {
	AccessToken  string    `json:"access_token"`
	TokenType    string    `json:"token_type"`
	ExpiresIn    any       `json:"expires_in"` // a number, or a string under some behaviors
	RefreshToken string    `json:"refresh_token"`
	Scope        string    `json:"scope"`
	CreatedAt    string    `json:"created_at"`
	Owner        ownerView `json:"resource_owner"`
}

type ownerView struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// grantRefused is the error for an invalid code or refresh token. The platform does not
// distinguish the causes.
const grantRefused = "The provided authorization grant is invalid, expired, revoked, does not match the redirection URI used in the authorization request, or was issued to another client."

// createToken implements POST /oauth/token. The JSON body is from the API. Status and shape of
// its errors are an assumption.
func createToken(c *call, _ *store.World) (reply, error) {
	grantType := c.form.text("grant_type").is
	code, refresh := c.form.text("code").is, c.form.text("refresh_token").is
	required := []string{"grant_type", "redirect_uri"}
	switch grantType {
	case "authorization_code":
		required = append(required, "code")
	case "refresh_token":
		required = append(required, "refresh_token")
	}
	if err := c.client(required...); err != nil {
		return reply{}, err
	}
	if c.form.text("redirect_uri").is != c.api.App.RedirectURI {
		return reply{}, oauthProblem(http.StatusBadRequest, "invalid_grant", grantRefused)
	}
	var token *tokens.AccessToken
	var next string
	var good bool
	switch grantType {
	case "authorization_code":
		token, next, good = c.api.Tokens.Redeem(code)
	case "refresh_token":
		token, next, good = c.api.Tokens.Renew(refresh, c.behaviors.EndOldAccess)
	default:
		return reply{}, oauthProblem(http.StatusBadRequest, "unsupported_grant_type", "The authorization grant type is not supported by the authorization server.")
	}
	if !good {
		return reply{}, oauthProblem(http.StatusBadRequest, "invalid_grant", grantRefused)
	}
	c.record.TokenID, c.record.UserID = token.ID, token.Grant.User.ID
	return ok(c.api.viewToken(token, next)), nil
}

// revokeToken implements POST /oauth/revoke. The API requires the application's credentials.
// Three points are assumptions: an unknown token is not an error (RFC 7009), a refresh token
// can be revoked, and the reach of a revocation.
func revokeToken(c *call, _ *store.World) (reply, error) {
	token := c.form.text("token").is
	if err := c.client("token"); err != nil {
		return reply{}, err
	}
	if !c.api.Tokens.RevokeToken(token, c.behaviors) && c.behaviors.RefuseUnknownToken {
		return reply{}, oauthProblem(http.StatusBadRequest, "invalid_request", "The token is not known.")
	}
	return bare(struct{}{}), nil
}

// client checks the application's credentials and the required fields.
func (c *call) client(required ...string) error {
	id, secret := c.form.text("client_id").is, c.form.text("client_secret").is
	for _, name := range append([]string{"client_id", "client_secret"}, required...) {
		if c.form.text(name).is == "" {
			return oauthProblem(http.StatusBadRequest, "invalid_request", "Missing required parameter: "+name+".")
		}
	}
	if id != c.api.App.ClientID || secret != c.api.App.ClientSecret {
		return oauthProblem(http.StatusUnauthorized, "invalid_client", "Client authentication failed due to unknown client, no client authentication included, or unsupported authentication method.")
	}
	return nil
}

func (a *API) viewToken(t *tokens.AccessToken, refresh string) tokenView {
	owner := ownerView{ID: t.Grant.User.ID, Type: t.Grant.User.Type}
	if a.ClinicTokens {
		owner = ownerView{ID: t.ClinicID, Type: "Clinic"}
	}
	var life any = int(tokens.TokenLifetime.Seconds())
	if a.Behaviors.Get().ExpiresAsText {
		life = strconv.Itoa(int(tokens.TokenLifetime.Seconds()))
	}
	return tokenView{
		AccessToken: t.Value, TokenType: "Bearer", ExpiresIn: life,
		RefreshToken: refresh, Scope: operations.ScopeText(t.Grant.Scopes), CreatedAt: view.Time(t.Created), Owner: owner,
	}
}
