// Command flow screens levers of LLM inference engines: it runs Starlark workflows that launch engines,
// measure them with and without a lever in an order that cancels drift, judge the conditions and keep
// what helped. One verb a file; this is the only package where the others meet.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

func main() {
	// What the runtime ends by itself (no memory left, a panic that nobody caught) would exit with 2, which here
	// says that the workflow is wrong. So it ends with SIGABRT, 134 in a shell.
	debug.SetTraceback("crash")
	// A reader that goes away (flow run --json | head) must not kill a session in the middle of an arm.
	signal.Ignore(syscall.SIGPIPE)
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go watchSignals(signals, together, func(s os.Signal) { cancel(errSignal{s}) }, func() {
		// The supervisors see their pipes close and end every engine.
		_, _ = os.Stderr.WriteString("flow: ended at once by a second signal; flow status names what can go on with flow resume\n")
		os.Exit(4)
	})
	os.Exit(main1(ctx, newApp(os.Stdin, os.Stdout, os.Stderr), os.Args[1:]))
}
