package measure

// After an engine's stop its GPU memory is given back, but not at once: the driver tears a context down for
// seconds. Where a gate asks for it, the arm waits for that before its last sample is taken.

import (
	"context"
	"strings"
	"sync"
	"time"

	"flow/builtins/machine"
	"flow/workflows/record"
	"flow/workflows/run"
)

const (
	vramSuffix = ".mem_used_mib"
	drainTime  = 15 * time.Second
	drainSlack = 32 // MiB: less than any engine's context takes
)

// vram follows the GPUs' memory in use.
type vram struct {
	mu          sync.Mutex
	first, last map[string]record.Sample
}

// newVRAM is nil where no gate needs it.
func newVRAM(t run.Task) *vram {
	for _, s := range t.Sensors {
		if strings.HasSuffix(s, vramSuffix) {
			return &vram{first: map[string]record.Sample{}, last: map[string]record.Sample{}}
		}
	}
	return nil
}

func (v *vram) sample(x record.Sample) {
	if !strings.HasSuffix(x.Sensor, vramSuffix) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := v.first[x.Sensor]; !ok {
		v.first[x.Sensor] = x
	}
	v.last[x.Sensor] = x
}

// back says that a sample since at shows every GPU's memory as it was before the launch.
func (v *vram) back(at int64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for k, first := range v.first {
		if last := v.last[k]; last.MonoNS < at || last.Value-first.Value > drainSlack {
			return false
		}
	}
	return true
}

// drain waits until the memory is back, for at most drainTime. What is not back then is for the gate to say.
func (r *rig) drain(ctx context.Context) {
	if r.vram == nil || r.proc == nil {
		return
	}
	r.Mark("drain")
	stopped := machine.Monotonic()
	for end := stopped + int64(drainTime); machine.Monotonic() < end && !r.vram.back(stopped); {
		if machine.Settle(ctx, 20*time.Millisecond, nil) != nil {
			return
		}
	}
}
