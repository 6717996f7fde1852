package control

import (
	_ "embed"
	"net/http"
	"slices"
	"strconv"
)

//go:embed openapi.yaml
var contract []byte

// Contract returns the API's OpenAPI 3.1 document.
func Contract() []byte { return slices.Clone(contract) }

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
