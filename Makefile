# The commands of a first hour. Only "nightly" needs the services of CONTRIBUTING.md.
.PHONY: run ehr test check lint nightly

run: ## a whole integration on this machine, in memory
	go run ./examples/quickstart

ehr: ## an EHR with three clinics, in the browser
	go run ./examples/ehr

test: ## all tests, with Go alone
	go test work

check: lint test ## what a change needs
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	.ci/dependencies

lint: ## go vet and staticcheck, in all modules
	go vet work
	cd internal/tools && GOWORK=off go build -o ../../bin/ honnef.co/go/tools/cmd/staticcheck
	bin/staticcheck $$(go list -m -f '{{.Dir}}/...')

nightly: ## everything, with all services
	.ci/nightly
