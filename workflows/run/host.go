package run

// What an arm asks of the host, besides sensors.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// HostRig is a rig on a machine that can be read and changed. Rigs of simulated and recorded arms are none.
type HostRig interface {
	// Apply puts host settings in force until Close. Each gives a finding that says what it was before. An
	// error is of kind Machine; then nothing is changed.
	Apply(ctx context.Context, hs []plan.HostSetting) ([]record.Finding, error)
	WordsRig
	// PageCache brings the files of all the group's engines into a state.
	PageCache(ctx context.Context, policy string) error
	// Preheat heats the machine that long, with a command or by being busy.
	Preheat(ctx context.Context, d time.Duration, heater []string) error
}

// WordsRig is a rig whose machine can be asked in words: the real one, and recorded arms for what they were
// told then. A measurer that is one as well can be asked outside an arm.
type WordsRig interface {
	// Words answers names such as governor or power_source; why says why the others have no answer.
	Words(ctx context.Context, names []string) (said, why map[string]string)
}

// hostPrefix begins needs of a gate that are words of the host, not sensors.
const hostPrefix = "host."

// hostNeeds is what gates need to know of the host in words.
func hostNeeds(g *plan.Group) []string {
	var out []string
	for _, x := range g.Gates {
		for _, n := range x.Needs {
			if name, ok := strings.CutPrefix(n, hostPrefix); ok && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// wordsOf is what a gate wants the host to say: {"words": {"governor": "performance"}} of its params.
func wordsOf(g plan.Gate) map[string]string {
	var p struct {
		Words map[string]string `json:"words"`
	}
	if json.Unmarshal([]byte(g.Params), &p) != nil {
		return nil
	}
	return p.Words
}

// neighbourChange says that who shares the machine changed between two arms of a block; "" when nobody did.
func neighbourChange(first, a *record.Arm) string {
	x, y := slices.Sorted(slices.Values(first.Neighbours)), slices.Sorted(slices.Values(a.Neighbours))
	if slices.Equal(x, y) {
		return ""
	}
	return fmt.Sprintf("a neighbour started or ended inside the block: %s beside arm %s, %s here", orNobody(x), record.ArmName(first.Label, first.Seq), orNobody(y))
}

func orNobody(x []string) string {
	if len(x) == 0 {
		return "nobody"
	}
	return strings.Join(x, ", ")
}
