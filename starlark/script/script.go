// Package script loads workflow files and calls their functions.
//
// Its opinion: a workflow is a stranger's program. Everything it can do is bounded (steps, wall time, the
// folder it may load from), everything it gets wrong ends as one *diag.Error at the user's own line with
// something to write instead, and what a function does has an identity that survives moving, renaming and
// commenting. The package knows the language and nothing of what workflows are about: builtins are handed
// in, and reach their environment through the thread (Context, LoaderOf, Loader.Locals).
package script

import (
	"context"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"flow/starlark/diag"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Source is a file as it was read.
type Source struct {
	Label  string // "lib/gates.star", "@flow//gates.star": never a machine path
	SHA256 string // hex, of Text
	Text   string
}

// Limits bound one Load or Call. Zero fields mean the defaults.
type Limits struct {
	// Steps is how many instructions one file's top level, or one Call, may execute; 0 means 50 million
	// (a second or two of pure looping). It counts instructions, not work: list(range(10000000)) costs ten,
	// which is why loading has a deadline as well.
	Steps uint64
	// Load is the wall time of one Load with everything it loads; 0 means 10 s.
	Load time.Duration
	// Memory is by how many bytes the heap may grow during one Load; 0 means 2 GiB.
	Memory uint64
}

// The defaults of Limits, and the size from which a file is refused unread.
const (
	DefaultSteps  = 50_000_000
	DefaultLoad   = 10 * time.Second
	DefaultMemory = 2 << 30
	maxSourceSize = 1 << 20
)

// grace is how long Load waits, after its end was ordered, for the interpreter to notice. A builtin of
// Starlark itself (sorting a huge list) does not poll; its goroutine is then left to end by itself, which is
// safe because the top level has no effects.
const grace = 250 * time.Millisecond

// Loader loads files once each and calls functions. Set the exported fields before the first Load and leave
// them; the methods may then be used from several goroutines. The zero value loads nothing but is usable
// for Call.
type Loader struct {
	// Root is the workflow's folder; labels are relative to it. os.Root.FS() also confines symbolic links,
	// which os.DirFS follows.
	Root fs.FS
	// Library holds the files whose label starts with "@flow//"; nil means there are none.
	Library fs.FS
	// Predeclared is every name beside Starlark's own, in workflow and library files alike.
	Predeclared starlark.StringDict
	Limits      Limits
	// Print receives print(); nil drops it. It may be called from several goroutines.
	Print func(pos diag.Pos, msg string)
	// Locals are set as thread-locals on every thread that the loader starts.
	Locals map[string]any

	mu      sync.Mutex
	modules map[string]starlark.StringDict // by resolved label; only complete, frozen modules
	files   map[string]*file               // by label; everything that was read
	frozen  []capturedVar                  // by Capture, for messages
	loading chan struct{}                  // held by the outermost Load: files load one after the other
	exports map[string]string              // name to library label, for "load it from"; nil until asked
}

// file is a source with its syntax tree, which fingerprints and messages read.
type file struct {
	Source
	lines   []string
	tree    *syntax.File          // nil when it did not parse
	defs    map[place]syntax.Node // *syntax.DefStmt or *syntax.LambdaExpr by position
	globals []string
}

type place struct{ line, col int32 }

// chain is the files being loaded, innermost first.
type chain struct {
	label  string
	parent *chain
}

type chainKey struct{ l *Loader }

// Load runs the file with that label, "stack-screen.star" or "@flow//gates.star", and gives its globals,
// frozen. A file is run once; later calls give the same globals. Errors are *diag.Error.
func (l *Loader) Load(ctx context.Context, label string) (starlark.StringDict, error) {
	resolved, err := resolveLabel("", label)
	if err != nil {
		return nil, err
	}
	if c, ok := ctx.Value(chainKey{l}).(*chain); ok { // a builtin at top level loads another file
		return l.load(ctx, c, resolved)
	}
	// One file at a time: two goroutines loading a -> b and b -> a would otherwise wait for each other.
	sem := l.semaphore()
	select {
	case sem <- struct{}{}:
		defer func() { <-sem }()
	case <-ctx.Done():
		return nil, stopped(ctx, diag.Pos{File: resolved}, nil, nil)
	}
	limit := l.Limits.Load
	if limit <= 0 {
		limit = DefaultLoad
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, loadTimeout(limit))
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)

	type result struct {
		globals starlark.StringDict
		err     error
	}
	done := make(chan result, 1)
	go func() {
		r := result{err: &diag.Error{Pos: diag.Pos{File: resolved}, Kind: diag.Bug, Msg: "loading ended without a result"}}
		defer func() {
			if p := recover(); p != nil {
				r = result{err: bug(diag.Pos{File: resolved}, nil, "load", p)}
			}
			done <- r
		}()
		r.globals, r.err = l.load(ctx, nil, resolved)
	}()
	// What is in the way of ending is left to itself: the top level has no effects.
	var r result
	err = BoundMemory(ctx, diag.Pos{File: resolved}, l.Limits.Memory, func(bound context.Context) error {
		stop := context.AfterFunc(bound, func() { end(context.Cause(bound)) })
		defer stop()
		select {
		case r = <-done:
			return r.err
		case <-ctx.Done():
		}
		select {
		case r = <-done:
			return r.err
		case <-time.After(grace):
			return stopped(ctx, diag.Pos{File: resolved}, nil, nil)
		}
	})
	if err != nil {
		return nil, err
	}
	return maps.Clone(r.globals), nil
}

func (l *Loader) semaphore() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loading == nil {
		l.loading = make(chan struct{}, 1)
	}
	return l.loading
}

// load runs one file and, from its load statements, the others. Failures are not cached: the next Load
// reads the file again.
func (l *Loader) load(ctx context.Context, parent *chain, label string) (starlark.StringDict, error) {
	l.mu.Lock()
	globals, ok := l.modules[label]
	l.mu.Unlock()
	if ok {
		return globals, nil
	}
	for c := parent; c != nil; c = c.parent {
		if c.label == label {
			return nil, cycle(label, parent)
		}
	}
	f, err := l.read(label)
	if err != nil {
		return nil, err
	}
	prog, err := l.compile(f)
	if err != nil {
		return nil, err
	}
	c := &chain{label: label, parent: parent}
	r := l.start(context.WithValue(ctx, chainKey{l}, c), label)
	defer r.stop()
	r.thread.Load = func(_ *starlark.Thread, module string) (starlark.StringDict, error) {
		next, err := resolveLabel(label, module)
		if err != nil {
			return nil, err
		}
		return l.load(r.ctx, c, next)
	}
	globals, err = prog.Init(r.thread, bounded(l.Predeclared))
	globals.Freeze()
	if err != nil {
		return nil, l.diagnose(r, "", err)
	}
	if ctx.Err() != nil { // it ended while it was being given up
		return nil, stopped(ctx, diag.Pos{File: label}, nil, nil)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.modules == nil {
		l.modules = make(map[string]starlark.StringDict)
	}
	if first, ok := l.modules[label]; ok {
		return first, nil
	}
	l.modules[label] = globals
	return globals, nil
}

// Call calls fn on a thread of its own. What says for whom, in errors: "gate no_swap_growth, group
// screen-x, arm A1"; empty says nothing. When ctx ends, a Starlark loop stops within milliseconds and a
// builtin as soon as it heeds Context(t); Call waits for it, because a builtin may have something to put
// back. Errors are *diag.Error, and errors.Is finds context.Canceled in one that was caused by it.
func (l *Loader) Call(ctx context.Context, what string, fn starlark.Callable, args starlark.Tuple, kwargs []starlark.Tuple) (v starlark.Value, err error) {
	r := l.start(ctx, what)
	defer r.stop()
	defer func() {
		if p := recover(); p != nil {
			v, err = nil, bug(position(fn), nil, join(what, fn.Name()), p)
		}
	}()
	if ctx.Err() != nil {
		return nil, withOp(stopped(ctx, position(fn), nil, nil), what)
	}
	v, err = starlark.Call(r.thread, fn, args, kwargs)
	if err != nil {
		return nil, l.diagnose(r, what, err)
	}
	return v, nil
}

// Sources are the files read so far, verbatim, by label.
func (l *Loader) Sources() []Source {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Source, 0, len(l.files))
	for _, f := range l.files {
		all = append(all, f.Source)
	}
	slices.SortFunc(all, func(a, b Source) int { return strings.Compare(a.Label, b.Label) })
	return all
}
