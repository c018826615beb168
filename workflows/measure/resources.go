package measure

// What a session holds: the whole host, or the GPUs, CPUs and disks that its engines say they use. Then other
// sessions may measure beside it on what is left; every arm records who did.

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"flow/builtins/hardware"
	"flow/builtins/machine"
	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// usage is resources as they were taken.
type usage struct {
	key       string   // of what was asked, for the next group
	resources []string // as locked
	gpus      []string // UUIDs
	cpus      []int
}

func (u *usage) shared() bool { return !slices.Contains(u.resources, machine.Host) }

// hold takes what a group's engines use, and keeps it until a group uses something else, or Close.
func (m *Real) hold(ctx context.Context, g *plan.Group) (*usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := askedOf(g)
	key := strings.Join(asked, " ")
	if m.lock != nil && m.used.key == key {
		return m.used, nil
	}
	if m.lock != nil { // all of it first: half of two sets is how two sessions wait for each other
		err := m.lock.Release()
		if m.lock = nil; err != nil {
			return nil, err
		}
	}
	choices, err := m.choices(asked)
	if err != nil {
		return nil, err
	}
	who := machine.Holder{Session: m.o.SessionID, Workflow: m.o.Workflow}
	var held error
	for _, u := range choices {
		if m.lock, err = machine.Acquire(ctx, m.o.LockDir, u.resources, who, 0); err == nil {
			return m.took(u, key), nil
		}
		held = cmp.Or(held, err)
	}
	if m.o.Wait <= 0 {
		return nil, held
	}
	if m.o.OnWait != nil {
		m.o.OnWait("waiting for another flow on this machine")
	}
	u := choices[0]
	if m.lock, err = machine.Acquire(ctx, m.o.LockDir, u.resources, who, m.o.Wait); err != nil {
		return nil, err
	}
	return m.took(u, key), nil
}

// took remembers what is held. m.mu is held.
func (m *Real) took(u *usage, key string) *usage {
	u.key = key
	m.used = u
	if len(u.gpus) > len(m.gpus) {
		m.gpus = u.gpus
	}
	return u
}

// askedOf is what all engines of a group use together, sorted; host when one does not say, or when the group
// changes what is the whole host's.
func askedOf(g *plan.Group) []string {
	host := []string{machine.Host}
	var out []string
	for _, s := range g.Sides {
		if s.Engine.URL != "" {
			continue // it runs whether we measure or not
		}
		if len(s.Engine.Resources) == 0 {
			return host
		}
		out = append(out, s.Engine.Resources...)
		for _, h := range g.HostOf(s) {
			if h.Name != plan.HostCPUs {
				return host
			}
		}
	}
	if p := g.Settling; p != nil && (p.PageCache == plan.CacheWarm || p.PageCache == plan.CacheCold || p.Preheat > 0) {
		return host
	}
	if len(out) == 0 {
		return host
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// choices are the sets of resources that would do, the best first: "gpus:2" may be any two.
func (m *Real) choices(asked []string) ([]*usage, error) {
	base := &usage{}
	count := 0
	for _, r := range asked {
		kind, id, _ := strings.Cut(r, ":")
		switch kind {
		case "gpus":
			n, err := strconv.Atoi(id)
			if err != nil || n < 1 {
				return nil, &diag.Error{Kind: diag.Workflow, Op: "resources", Msg: fmt.Sprintf("got %q, want gpus(1)", r), Fix: "resources = [gpus(1)]"}
			}
			count = max(count, n)
			continue
		case "gpu":
			base.gpus = append(base.gpus, id)
		case "cpus":
			cpus, err := machine.ParseCPUs(id)
			if err != nil {
				return nil, &diag.Error{Kind: diag.Workflow, Op: "resources", Err: err, Fix: `resources = [cpus("0-3")]`}
			}
			base.cpus = append(base.cpus, cpus...)
		case "numa":
			b, err := os.ReadFile(filepath.Join(m.o.Sys, "devices/system/node/node"+id, "cpulist"))
			if err != nil {
				return nil, &diag.Error{Kind: diag.Machine, Op: "resources", Msg: "NUMA node " + id, Err: err, Fix: "see which there are: ls /sys/devices/system/node"}
			}
			cpus, err := machine.ParseCPUs(string(b))
			if err != nil {
				return nil, err
			}
			base.cpus = append(base.cpus, cpus...)
		case "disk":
			if filepath.IsAbs(id) {
				info, err := os.Stat(id)
				if err != nil {
					return nil, &diag.Error{Kind: diag.Workflow, Op: "resources", Err: err, Fix: "name a file or folder on the disk, or the disk: disk(\"nvme0n1\")"}
				}
				if d := machine.DiskOf(m.o.Sys, info); d != "" {
					r = "disk:" + d
				}
			}
		}
		base.resources = append(base.resources, r)
	}
	slices.Sort(base.cpus)
	base.cpus = slices.Compact(base.cpus)
	count -= len(base.gpus)
	if count <= 0 {
		return []*usage{base}, nil
	}
	return m.withGPUs(base, count)
}

// withGPUs adds any n devices: those of earlier groups first, then each place in the list.
func (m *Real) withGPUs(base *usage, n int) ([]*usage, error) {
	known := slices.Clone(m.gpus)
	for _, g := range hardware.GPUs(m.sources) {
		if !slices.Contains(known, g.UUID) {
			known = append(known, g.UUID)
		}
	}
	known = slices.DeleteFunc(known, func(id string) bool { return slices.Contains(base.gpus, id) })
	if len(known) < n {
		return nil, &diag.Error{Kind: diag.Machine, Op: "resources", Msg: fmt.Sprintf("the engine wants %d more GPUs than it names, and flow sees %d", n, len(known)),
			Fix: `see what flow doctor says of nvml, or name them: gpu("GPU-…")`}
	}
	var out []*usage
	for at := range known {
		u := &usage{resources: slices.Clone(base.resources), gpus: slices.Clone(base.gpus), cpus: base.cpus}
		for i := range n {
			id := known[(at+i)%len(known)]
			u.gpus = append(u.gpus, id)
			u.resources = append(u.resources, "gpu:"+id)
		}
		out = append(out, u)
	}
	return out, nil
}

// visible is the environment that shows an engine its own devices only. AMD's UUIDs have no dashes after the
// first.
func (u *usage) visible() map[string]string {
	if len(u.gpus) == 0 {
		return nil
	}
	ids := strings.Join(u.gpus, ",")
	if strings.Count(u.gpus[0], "-") <= 1 && strings.HasPrefix(u.gpus[0], "GPU-") {
		return map[string]string{"ROCR_VISIBLE_DEVICES": ids}
	}
	return map[string]string{"CUDA_VISIBLE_DEVICES": ids, "NVIDIA_VISIBLE_DEVICES": ids}
}

// neighbours fills in who else used the machine, before and after. One that came or went while the arm ran
// voids it.
func (r *rig) neighbours(a *record.Arm) {
	after := machine.Neighbours(r.m.o.LockDir)
	var came, went []string
	for _, n := range after {
		if !slices.Contains(r.beside, n) {
			came = append(came, n)
		}
	}
	for _, n := range r.beside {
		if !slices.Contains(after, n) {
			went = append(went, n)
		}
	}
	a.Neighbours = append(slices.Clone(r.beside), came...)
	if len(came)+len(went) == 0 {
		return
	}
	var words []string
	for _, n := range came {
		words = append(words, n+" started")
	}
	for _, n := range went {
		words = append(words, n+" ended")
	}
	a.Findings = append(a.Findings, record.Finding{Gate: "neighbours", Phase: plan.PhaseDuring, Outcome: record.Fail, Required: true,
		Observed: strings.Join(words, ", "), Limit: "the same from begin to end", Reason: "a neighbour started or ended inside the block"})
}
