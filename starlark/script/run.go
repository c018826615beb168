package script

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"flow/starlark/diag"

	"go.starlark.net/starlark"
)

// running is one thread at work: a file's top level or a Call.
type running struct {
	loader *Loader
	ctx    context.Context
	thread *starlark.Thread
	steps  uint64      // the limit
	spent  atomic.Bool // the limit was reached
	stop   func()
}

const runningKey = "script.running"

// start makes a thread that ends with ctx. A thread is never shared: stop it where it was started.
func (l *Loader) start(ctx context.Context, name string) *running {
	r := &running{loader: l, ctx: ctx, steps: l.Limits.Steps}
	if r.steps == 0 {
		r.steps = DefaultSteps
	}
	r.thread = &starlark.Thread{Name: name, Print: func(t *starlark.Thread, msg string) {
		if l.Print != nil {
			pos, _ := Caller(t)
			l.Print(pos, msg)
		}
	}}
	r.thread.SetMaxExecutionSteps(r.steps)
	r.thread.OnMaxSteps = func(t *starlark.Thread) {
		r.spent.Store(true)
		t.Cancel("too many steps")
	}
	for k, v := range l.Locals {
		r.thread.SetLocal(k, v)
	}
	r.thread.SetLocal(runningKey, r)
	unhook := context.AfterFunc(ctx, func() { r.thread.Cancel("context ended") })
	r.stop = func() { unhook() }
	return r
}

func runningOf(t *starlark.Thread) *running {
	r, _ := t.Local(runningKey).(*running)
	return r
}

// Context is the context of the Load or Call that t runs in. A builtin that waits must heed it.
func Context(t *starlark.Thread) context.Context {
	if r := runningOf(t); r != nil {
		return r.ctx
	}
	return context.Background()
}

// LoaderOf is the loader that started t, nil when none did.
func LoaderOf(t *starlark.Thread) *Loader {
	if r := runningOf(t); r != nil {
		return r.loader
	}
	return nil
}

// Func is the Go side of a builtin.
type Func = func(t *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error)

// Builtin makes a builtin whose panic becomes an error of kind Bug at the caller's line. Load and Call
// recover panics of other builtins too, but by then the interpreter's stack, and with it the line, is gone.
func Builtin(name string, fn Func) *starlark.Builtin {
	return starlark.NewBuiltin(name, func(t *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (v starlark.Value, err error) {
		defer func() {
			if p := recover(); p != nil {
				pos, via := Caller(t)
				v, err = nil, bug(pos, via, name, p)
			}
		}()
		return fn(t, b, args, kwargs)
	})
}

// Panic is the cause of an error of kind Bug: what was thrown, and from where.
type Panic struct {
	Value any
	Stack []byte // of the goroutine, for a report of the bug
}

func (p *Panic) Error() string { return fmt.Sprint(p.Value) }

// Unwrap gives the thrown value when it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

func bug(pos diag.Pos, via []diag.Frame, op string, thrown any) *diag.Error {
	return &diag.Error{Pos: pos, Via: via, Kind: diag.Bug, Op: op, Msg: "a bug in flow",
		Fix: "report it with this file", Err: &Panic{Value: thrown, Stack: debug.Stack()}}
}
