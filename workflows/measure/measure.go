// Package measure is what arms are measured with. There are two measurers: the real one joins engine,
// client and sampler into the timeline of an arm; the simulated one invents arms from declared effects
// and noise, at full speed and without a process.
//
// Its opinion: both give the same facts, so that everything above (gates, stops, verdicts, records) is
// the same code for a rehearsal and for a night on the machine.
package measure

import (
	"encoding/hex"
	"fmt"

	"crypto/sha256"

	"flow/workflows/plan"
)

// nonce is a function of the group's seed and the request's index: different for each request of an arm,
// equal between arms, so that outputs stay comparable. What differs comes first: a prompt cache keeps the
// longest common beginning, and with a small vocabulary a fixed word before the digits is ten tokens.
func nonce(seed uint64, index int) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%d/%d", seed, index))
	return hex.EncodeToString(h[:4]) + " is the ticket."
}

func shaText(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}

// has reports whether a stack holds a lever.
func has(s plan.Stack, l plan.Lever) bool {
	k := l.Key()
	for _, x := range s {
		if x.Key() == k {
			return true
		}
	}
	return false
}
