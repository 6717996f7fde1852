package control

import (
	_ "embed"
	"net/http"
	"slices"
	"strconv"
)

// contract is the API's OpenAPI 3.1 document.
//
//go:embed openapi.yaml
var contract []byte

func serveContract(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("Content-Length", strconv.Itoa(len(contract)))
	_, _ = w.Write(contract) // a client that went away is no failure of ours
}

// Operations returns the API's route table, in the order of its contract.
func Operations() []Operation {
	return slices.Concat(
		platformOperations(), clockOperations(), tokenOperations(),
		webhookOperations(), faultOperations(), behaviorOperations(), journalOperations(),
		worldOperations(), patientOperations(), planOperations(), catalogOperations(), clinicOperations(),
	)
}
