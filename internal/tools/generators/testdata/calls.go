// Package calls is a program on the clients that oapi-codegen generates in Go, and a
// server that serves what it generates. .ci/generators compiles it.
package calls

import (
	"context"
	"fmt"
	"net/http"

	"github.com/dispensary-go/dispensary/internal/tools/generated/control"
	"github.com/dispensary-go/dispensary/internal/tools/generated/dispensary"
	"github.com/dispensary-go/dispensary/internal/tools/generated/server"
)

// Create creates a patient with the required fields alone.
func Create(ctx context.Context, address string) (string, error) {
	client, err := dispensary.NewClientWithResponses(address)
	if err != nil {
		return "", err
	}
	answer, err := client.PatientsCreateWithResponse(ctx, dispensary.NewPatient{
		Email: "ada@example.com", FirstName: "Ada", LastName: "Lovelace",
	})
	switch {
	case err != nil:
		return "", err
	case answer.JSON422 != nil:
		return "", fmt.Errorf("refused: %v", answer.JSON422.Error)
	case answer.JSON201 == nil:
		return "", fmt.Errorf("status %d", answer.StatusCode())
	}
	return answer.JSON201.Patient.Id, nil
}

// Seconds reads a value that is a number, or a number in a string.
func Seconds(token dispensary.OAuthToken) (int, error) {
	return token.ExpiresIn.AsOAuthTokenExpiresIn0()
}

// Fail drives the control API.
func Fail(ctx context.Context, address string) error {
	client, err := control.NewClientWithResponses(address)
	if err != nil {
		return err
	}
	_, err = client.FaultsSetWithResponse(ctx, control.Fault{})
	return err
}

// Serve routes the API's requests to an implementation.
func Serve(implementation server.StrictServerInterface) http.Handler {
	return server.Handler(server.NewStrictHandler(implementation, nil))
}
