# One line each; .ci/run is what must pass before a change goes in.
FUZZTIME ?= 60s

.PHONY: build test race bench lint docs fuzz calibrate ci search-bench

build: ; go build -o flow ./cmd/flow
test:  ; go test ./...
race:  ; go test -race ./...
bench: ; go test -run '^$$' -bench . -benchmem ./...
lint:  ; test -z "$$(gofmt -l .)" && go vet ./... && go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
search-bench: ; FLOW_SEARCH=2000 go test ./builtins/stats -run Section4Search -count=1 -v
docs:  ; go test ./builtins -run Reference -update
fuzz:  ; .ci/fuzz $(FUZZTIME)
calibrate: ; go test ./builtins/gate -run 'Calibration|Power' -v -calibrate 20000 -update -timeout 2h
ci:    ; .ci/run
