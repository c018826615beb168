package measure

// The host around an arm: settings put in force and back, what the machine says in words, files in the page
// cache, the CPUs that an engine is bound to.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"flow/builtins/engine"
	"flow/builtins/hardware"
	"flow/builtins/machine"
	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

var (
	_ run.HostRig  = (*rig)(nil)
	_ run.WordsRig = (*Real)(nil)
)

// settings is the host of this measurer.
func (m *Real) settings() machine.Settings {
	return machine.Settings{Proc: m.o.Proc, Sys: m.o.Sys, Undo: machine.UndoDir(m.o.StateDir), Session: m.o.SessionID, Run: m.o.Run}
}

// Apply puts host settings in force until Close.
func (r *rig) Apply(ctx context.Context, hs []plan.HostSetting) ([]record.Finding, error) {
	applied, changes, err := r.m.settings().Apply(ctx, hs)
	if err != nil {
		return nil, err
	}
	r.applied = applied
	var out []record.Finding
	for _, c := range changes {
		f := record.Finding{Gate: "host " + c.Setting.Key(), Phase: plan.PhaseBefore, Outcome: record.Pass, Required: true, Observed: c.Setting.Value}
		if c.Before != "" {
			f.Observed += ", was " + c.Before
		}
		out = append(out, f)
	}
	return out, nil
}

// Words answers what gates ask of the host.
func (r *rig) Words(ctx context.Context, names []string) (said, why map[string]string) {
	if slices.Contains(names, "kernel_log") { // known when the arm ends
		r.kernel = machine.OpenKernelLog(r.m.o.KernelLog)
		names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "kernel_log" })
	}
	return r.m.Words(ctx, names)
}

// Words answers what the host says now.
func (m *Real) Words(ctx context.Context, names []string) (said, why map[string]string) {
	said, why = map[string]string{}, map[string]string{}
	for _, n := range names {
		v, err := m.word(ctx, n)
		if err != nil {
			why[n] = err.Error()
			continue
		}
		said[n] = v
	}
	return said, why
}

// word is one of them. Who is on the GPUs is asked of the sensors: a process on a line, nothing where there is
// nobody but flow's own.
func (m *Real) word(ctx context.Context, name string) (string, error) {
	if name != "gpu_processes" {
		return m.settings().Word(ctx, name)
	}
	found, err := hardware.GPUProcesses(m.sources)
	lines := make([]string, len(found))
	for i, p := range found {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n"), err
}

// kernelLog fills in what the kernel said while the arm ran.
func (r *rig) kernelLog(a *record.Arm) {
	if r.kernel == nil {
		return
	}
	defer r.kernel.Close()
	text, err := r.kernel.New()
	if err != nil {
		if a.HostWhy == nil {
			a.HostWhy = map[string]string{}
		}
		a.HostWhy["kernel_log"] = err.Error()
		return
	}
	if a.Host == nil {
		a.Host = map[string]string{}
	}
	a.Host["kernel_log"] = text
}

// PageCache brings the files of all engines of the group into a state, on every side alike.
func (r *rig) PageCache(ctx context.Context, policy string) error {
	var files []string
	for _, s := range r.t.Group.Sides {
		for _, f := range s.Engine.Files {
			if !filepath.IsAbs(f) {
				f = filepath.Join(r.m.o.Root, f)
			}
			err := filepath.WalkDir(f, func(p string, e os.DirEntry, err error) error { // a model may be a folder
				if err == nil && !e.IsDir() && !slices.Contains(files, p) {
					files = append(files, p)
				}
				return err
			})
			if err != nil {
				return &diag.Error{Pos: s.Engine.Pos, Kind: diag.Workflow, Op: "page cache", Err: err}
			}
		}
	}
	if len(files) == 0 {
		return &diag.Error{Pos: r.t.Group.Pos, Kind: diag.Workflow, Op: "settle", Msg: "page_cache = " + policy + ", and no engine of the group names its files",
			Fix: `engine(…, files = ["model.gguf"])`}
	}
	if err := machine.PageCache(ctx, policy, files); err != nil {
		return &diag.Error{Kind: diag.Machine, Op: "page cache " + policy, Err: err, Fix: `leave page_cache out of settle, or make the files readable`}
	}
	return nil
}

// Preheat heats the machine with a command, ended after d, or by being busy on the engine's CPUs.
func (r *rig) Preheat(ctx context.Context, d time.Duration, heater []string) error {
	hctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	if len(heater) == 0 {
		machine.Burn(hctx, len(r.used.cpus))
		return context.Cause(ctx)
	}
	run := r.m.o.Run
	if run == nil {
		run = machine.RunCommand
	}
	if _, err := run(hctx, heater); err != nil && hctx.Err() == nil {
		return &diag.Error{Pos: r.t.Group.Pos, Kind: diag.Machine, Op: "settle", Msg: "preheat with " + strings.Join(heater, " "), Err: err, Fix: "run the command by hand"}
	}
	return context.Cause(ctx)
}

// restore puts the host back as the arm found it.
func (r *rig) restore(ctx context.Context) error {
	if r.applied == nil {
		return nil
	}
	_, err := r.applied.Restore(ctx)
	r.applied = nil
	return err
}

// cpus is what the engine of this side is bound to: what a lever says, else what the engine uses; nil is all.
func (r *rig) cpus() ([]int, error) {
	for _, h := range r.t.Group.HostOf(r.t.Side) {
		if h.Name != plan.HostCPUs {
			continue
		}
		cpus, err := machine.ParseCPUs(h.Value)
		if err != nil {
			return nil, &diag.Error{Kind: diag.Workflow, Op: "host.cpus", Err: err, Fix: `host.cpus("0-3")`}
		}
		for _, c := range cpus {
			if len(r.used.cpus) > 0 && !slices.Contains(r.used.cpus, c) {
				return nil, &diag.Error{Kind: diag.Workflow, Op: "host.cpus", Msg: fmt.Sprintf("CPU %d is not among the engine's resources", c), Fix: `resources = [cpus("…")] with all that any side uses`}
			}
		}
		return cpus, nil
	}
	return r.used.cpus, nil
}

// bound starts the engine on its CPUs, with only its own devices visible.
func (r *rig) bound(ctx context.Context, o engine.Options, l engine.Launch) (*engine.Process, error) {
	cpus, err := r.cpus()
	if err != nil {
		return nil, &engine.StartError{Reason: err.Error(), Permanent: true}
	}
	if v := r.used.visible(); v != nil {
		env := map[string]string{}
		for k, x := range l.Command.Env {
			env[k] = x
		}
		for k, x := range v {
			env[k] = x
		}
		l.Command.Env = env
	}
	var p *engine.Process
	began := false
	err = machine.OnCPUs(cpus, func() (err error) {
		began = true
		p, err = engine.Start(ctx, o, l)
		return err
	})
	if err != nil && !began {
		err = &engine.StartError{Reason: "launch engine " + l.Engine.Name, Permanent: true, Err: err}
	}
	return p, err
}

// withoutHost is the levers with what the engine can be asked about; the host's evidence is read apart.
func withoutHost(levers []plan.Lever) []plan.Lever {
	out := slices.Clone(levers)
	for i := range out {
		out[i].Confirm = slices.DeleteFunc(slices.Clone(out[i].Confirm), func(c plan.Confirm) bool { return c.Kind == plan.ConfirmHost })
	}
	return out
}

// confirmHost reads the host settings of levers back, on every side: where the lever is not, they must differ.
func (p *process) confirmHost(ctx context.Context, when string) []record.Evidence {
	var out []record.Evidence
	for _, l := range p.r.t.Levers {
		if !slices.ContainsFunc(l.Confirm, func(c plan.Confirm) bool { return c.Kind == plan.ConfirmHost }) {
			continue
		}
		e := record.Evidence{Lever: l.Name, Kind: plan.ConfirmHost, When: when, Found: true}
		var what, seen []string
		for _, h := range l.Host {
			if !h.Readable() {
				continue
			}
			what = append(what, h.String())
			ok, v, err := p.holds(ctx, h)
			if err != nil {
				e.Found, e.Error = false, err.Error()
				break
			}
			e.Found = e.Found && ok
			seen = append(seen, h.Key()+" = "+v)
		}
		e.What, e.Observed = strings.Join(what, ", "), strings.Join(seen, ", ")
		out = append(out, e)
	}
	return out
}

func (p *process) holds(ctx context.Context, h plan.HostSetting) (bool, string, error) {
	if h.Name != plan.HostCPUs {
		return p.r.m.settings().Holds(ctx, h)
	}
	v, err := machine.AllowedCPUs(p.ep.Info().Pid)
	if err != nil {
		return false, "", err
	}
	want, err := machine.ParseCPUs(h.Value)
	if err != nil {
		return false, "", err
	}
	have, err := machine.ParseCPUs(v)
	return err == nil && slices.Equal(want, have), v, err
}
