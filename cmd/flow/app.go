package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"flow/cmd/flow/ui"
	"flow/starlark/diag"
)

// app is what every verb shares: the streams and the flags of the root command.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	helpErr        error // of --help for a verb that does not exist: cobra takes no error from it
	args           []string
	dbPath         string // --db, else $FLOW_DB, else ./flow.db
}

// newApp reads the environment once.
func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	db := os.Getenv("FLOW_DB")
	if db == "" {
		db = "flow.db"
	}
	return &app{stdin: stdin, stdout: stdout, stderr: stderr, dbPath: db}
}

// exitError carries an exit code that is not an error to print, such as 1 with --strict.
type exitError struct {
	code int
	msg  string
}

func (e *exitError) Error() string { return e.msg }

// main1 runs the command line and gives the exit code. It is main without os.Exit, for tests.
func main1(ctx context.Context, a *app, args []string) (code int) {
	if hidden, ok := hiddenVerb(args); ok {
		return hidden(args[1:], a.stdout, a.stderr)
	}
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(a.stderr, "flow: a bug in flow: %v\n%s\tfix: report it with the command line and the file\n", p, debug.Stack())
			code = diag.Bug.ExitCode()
		}
	}()
	out := &output{w: a.stdout}
	a.stdout = out
	a.args = args
	root := newRootCommand(a)
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = a.helpErr
	}
	if err == nil {
		err = out.failed()
	}
	if err == nil {
		return 0
	}
	if errors.Is(err, syscall.EPIPE) {
		return 0 // whoever read the output has seen enough
	}
	var call *os.SyscallError
	if _, ok := diag.KindOf(err); !ok && errors.As(err, &call) && call.Syscall == "getwd" {
		err = &diag.Error{Kind: diag.Machine, Op: "working folder", Err: err, Fix: "it was deleted or moved: change to one that is there"}
	}
	var exit *exitError
	if errors.As(err, &exit) {
		if exit.msg != "" {
			fmt.Fprintln(a.stderr, "flow: "+ui.Clean(exit.msg, 4*ui.MaxText))
		}
		return exit.code
	}
	fmt.Fprintln(a.stderr, ui.Clean(diag.Format(err), 4*ui.MaxText))
	if k, ok := diag.KindOf(err); ok {
		return k.ExitCode()
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return diag.Stopped.ExitCode()
	}
	return diag.Bug.ExitCode()
}

// output is standard output. It remembers that something could not be written, because a session does not
// end for that and most of what prints does not ask: the command ends with 3 instead of 0.
type output struct {
	w   io.Writer
	mu  sync.Mutex
	err error
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err == nil {
		return n, nil
	}
	if !errors.Is(err, syscall.EPIPE) {
		err = &diag.Error{Kind: diag.Machine, Op: "standard output", Err: err, Fix: "make room where the output goes, or send it elsewhere"}
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

// failed is the first error but a reader that went away.
func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// File is the stream itself, for questions about a terminal; nil where it is none of the system's.
func (o *output) File() *os.File {
	f, _ := o.w.(*os.File)
	return f
}

// usage marks a mistake on the command line: exit code 2.
func usage(op, msg, fix string) error {
	return &diag.Error{Kind: diag.Workflow, Op: op, Msg: msg, Fix: fix}
}

// workflowArgs wraps cobra's argument checks so that a wrong command line ends with exit code 2.
func workflowArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usage("flow "+cmd.Name(), err.Error(), wordsFix(cmd, args))
		}
		return nil
	}
}
