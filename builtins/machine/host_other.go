//go:build !darwin

package machine

// hostFacts has nothing to add where /proc says it all.
func hostFacts(facts) {}
