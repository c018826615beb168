package plan

// Two hashes. Declared is equality: what was written. Resolved also holds what the written names meant:
// the digests of prompt files, binaries and models, and the fingerprints of functions. Journal and
// history use Resolved. Neither holds a machine path: a path is hashed as the digest of its file.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"flow/workflows/record"
)

// Hash is a hexadecimal SHA-256.
type Hash = string

// Sum is the hash of v's JSON.
func Sum(v any) Hash {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("plan: value has no JSON: %v", err)) // a bug: plan values are data
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// Digests says what a name in a workflow meant on this machine.
type Digests interface {
	// File is the SHA-256 of a file: absolute, or relative to the workflow's root.
	File(ctx context.Context, path string) (Hash, error)
	// Binary is the SHA-256 of what a command's first word runs, looked up like the engine's launch does.
	Binary(ctx context.Context, name string) (Hash, error)
}

// change is the effective part of a lever: what history compares.
type change struct {
	Env     map[string]string `json:"env,omitempty"`
	Unset   []string          `json:"unset,omitempty"`
	Args    []Arg             `json:"args,omitempty"`
	Without []string          `json:"without,omitempty"`
	Binary  string            `json:"binary,omitempty"`
	Config  map[string]string `json:"config,omitempty"`
	Request string            `json:"request,omitempty"`
	Host    []HostSetting     `json:"host,omitempty"`
}

// Change is the effective change as canonical JSON.
func (l Lever) Change() string {
	b, err := json.Marshal(change{l.Env, l.Unset, l.Args, l.Without, l.Binary, l.Config, l.Request, l.Host})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Key is the lever's identity in history: its name and its effective change.
func (l Lever) Key() Hash { return Sum([]string{l.Name, l.Change()}) }

// Declared is the hash of everything written, evidence included.
func (l Lever) Declared() Hash { return Sum(l) }

// Record is the lever as a fact.
func (l Lever) Record() record.Lever {
	b, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	r := record.Lever{Name: l.Name, Factor: l.Factor, Change: l.Change(), Hash: l.Key(), ChangesOutput: l.ChangesOutput, Declared: string(b)}
	for _, c := range l.Confirm {
		if c.Kind == ConfirmNone {
			r.Unconfirmed = c.Reason
		}
	}
	return r
}

// LeverFromRecord rebuilds a lever from what was recorded.
func LeverFromRecord(r record.Lever) (Lever, error) {
	var l Lever
	if err := json.Unmarshal([]byte(r.Declared), &l); err != nil {
		return Lever{}, fmt.Errorf("lever %q: its recorded declaration: %w", r.Name, err)
	}
	return l, nil
}

// Record is the stack as facts.
func (s Stack) Record() []record.Lever {
	out := make([]record.Lever, len(s))
	for i, l := range s {
		out[i] = l.Record()
	}
	return out
}

// Names is the stack in words: "a+b", "(none)" when empty.
func (s Stack) Names() string {
	if len(s) == 0 {
		return "(none)"
	}
	n := make([]string, len(s))
	for i, l := range s {
		n[i] = l.Name
	}
	return strings.Join(n, "+")
}

// Declared is the hash of the group as written, functions by their code.
func (g *Group) Declared() (Hash, error) {
	fp, err := g.fingerprints()
	if err != nil {
		return "", err
	}
	return Sum(struct {
		G *Group
		F []part
	}{g, fp}), nil
}

// part is one hashed part of a group, so that a refusal can name what changed.
type part struct {
	What string          `json:"what"`
	Hash string          `json:"hash"`
	Said json.RawMessage `json:"said,omitempty"` // what was hashed, where a change of it is told in full; no part of the hash
}

// Fixed is the group with every fingerprint computed at most once. Ask for it when the group runs: by then
// everything that its functions name is defined and frozen.
func (g *Group) Fixed() *Group {
	once := func(c Code) Code {
		if c.Fingerprint != nil {
			c.Fingerprint = sync.OnceValues(c.Fingerprint)
		}
		return c
	}
	f := *g
	f.BodyCode = once(g.BodyCode)
	f.Gates = slices.Clone(g.Gates)
	for i := range f.Gates {
		f.Gates[i].Code = once(f.Gates[i].Code)
	}
	f.Stops = slices.Clone(g.Stops)
	for i := range f.Stops {
		f.Stops[i].Code = once(f.Stops[i].Code)
	}
	return &f
}

func (g *Group) fingerprints() ([]part, error) {
	var out []part
	add := func(what string, c Code) error {
		if c.Fingerprint == nil {
			return nil
		}
		h, err := c.Fingerprint()
		if err != nil {
			return err
		}
		out = append(out, part{What: what, Hash: h})
		return nil
	}
	if err := add("body "+g.BodyCode.Name, g.BodyCode); err != nil {
		return nil, err
	}
	for _, x := range g.Gates {
		if err := add("gate "+x.Name, x.Code); err != nil {
			return nil, err
		}
	}
	for _, x := range g.Stops {
		if err := add("stop "+x.Name, x.Code); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Resolution is what a group meant on this machine, part by part, and the hash of it all.
type Resolution struct {
	Hash     Hash
	Parts    string // JSON list of {what, hash}, for Changed
	Engine   Hash   // the control's engine without levers
	Model    Hash   // of the control engine's files, "" when none is named
	Workload Hash
	Binaries map[string]Hash // command word to digest
	Files    map[string]Hash // file name to digest
}

// resolver digests what plan values name, each thing once.
type resolver struct {
	d    Digests
	into *Resolution
}

func (r resolver) file(ctx context.Context, path string) (Hash, error) {
	if h, ok := r.into.Files[path]; ok {
		return h, nil
	}
	h, err := r.d.File(ctx, path)
	if err == nil {
		r.into.Files[path] = h
	}
	return h, err
}

// binary is the digest of a command word; a binary that is not there is hashed as missing, because its
// side is infeasible, which is a result, and not the end of the session.
func (r resolver) binary(ctx context.Context, name string) Hash {
	if name == "" {
		return ""
	}
	if h, ok := r.into.Binaries[name]; ok {
		return h
	}
	h, err := r.d.Binary(ctx, name)
	if err != nil {
		h = "missing"
	}
	r.into.Binaries[name] = h
	return h
}

func (r resolver) engine(ctx context.Context, e Engine) (engine, model Hash, err error) {
	var models []string
	for _, f := range e.Files {
		h, err := r.file(ctx, f)
		if err != nil {
			return "", "", located(e.Pos, "engine "+e.Name, err)
		}
		models = append(models, h)
	}
	if len(models) > 0 {
		model = Sum(models)
	}
	if len(e.Command) > 0 {
		bin := r.binary(ctx, e.Command[0])
		e.Command = digestArgs(e.Command, r.into.Files)
		e.Command[0] = bin
	}
	e.Files = models
	e.Dir = ""         // a machine path
	e.Collectors = nil // how it is watched, which is the group's: a meter more is no other engine
	if len(e.Version) > 0 {
		e.Version = []string{"version"}
	}
	return Sum(e), model, nil
}

func (r resolver) workload(ctx context.Context, w Workload) (Hash, error) {
	w.Cases = slices.Clone(w.Cases)
	for i, c := range w.Cases {
		c.Prompts = slices.Clone(c.Prompts)
		for j, p := range c.Prompts {
			if p.File == "" {
				continue
			}
			h, err := r.file(ctx, p.File)
			if err != nil {
				return "", located(w.Pos, "workload", err)
			}
			c.Prompts[j] = Prompt{Text: h, Bytes: p.Bytes}
		}
		w.Cases[i] = c
	}
	return Sum(w), nil
}

// ResolveBase is the engine's, the model's and the workload's hash as a group with this control has them.
func ResolveBase(ctx context.Context, e Engine, w Workload, d Digests) (engine, model, workload Hash, err error) {
	r := resolver{d, &Resolution{Binaries: map[string]Hash{}, Files: map[string]Hash{}}}
	if engine, model, err = r.engine(ctx, e); err != nil {
		return "", "", "", err
	}
	workload, err = r.workload(ctx, w)
	return engine, model, workload, err
}

// designPart is hashed along, so it stays as it is.
const designPart = "design (order, gates, guards, stops, primary, costs, min_effect, retry, settle, probe)"

// Resolve digests every file that the group names. A missing file is an error that says where it was named.
func (g *Group) Resolve(ctx context.Context, d Digests) (*Resolution, error) {
	out := &Resolution{Binaries: map[string]Hash{}, Files: map[string]Hash{}}
	r := resolver{d, out}
	parts, err := g.fingerprints()
	if err != nil {
		return nil, err
	}
	for i, s := range g.Sides {
		eh, model, err := r.engine(ctx, s.Engine)
		if err != nil {
			return nil, err
		}
		wh, err := r.workload(ctx, g.WorkloadOf(s))
		if err != nil {
			return nil, err
		}
		if i == 0 {
			out.Engine, out.Model, out.Workload = eh, model, wh
		}
		parts = append(parts, part{What: "engine " + s.Engine.Name + " of side " + s.Label, Hash: eh}, part{What: "workload of side " + s.Label, Hash: wh})
		for _, l := range s.Stack {
			h := l.Declared()
			if l.Binary != "" {
				h = Sum([]string{h, r.binary(ctx, l.Binary)})
			}
			parts = append(parts, part{What: "lever " + l.Name + " of side " + s.Label, Hash: h})
		}
	}
	design := *g
	design.Sides = nil
	design.Workload = Workload{}
	for _, s := range g.Sides {
		design.Sides = append(design.Sides, Side{Label: s.Label})
	}
	parts = append(parts, part{What: designPart, Hash: Sum(&design)})
	out.Hash = Sum(parts)
	if parts[len(parts)-1].Said, err = json.Marshal(&design); err != nil {
		return nil, err
	}
	b, err := json.Marshal(parts)
	if err != nil {
		return nil, err
	}
	out.Parts = string(b)
	return out, nil
}

// digestArgs replaces arguments that name a digested file by its digest, so that a moved model keeps its hash.
func digestArgs(argv []string, files map[string]Hash) []string {
	out := slices.Clone(argv)
	for i, a := range out {
		for path, h := range files {
			if a == path || a == filepath.Base(path) && filepath.IsAbs(path) {
				out[i] = h
			} else if strings.HasSuffix(a, "="+path) {
				out[i] = strings.TrimSuffix(a, path) + h
			}
		}
	}
	return out
}
