// Package simengine is the embedded engine: an inference server whose true speed is known.
//
// Its opinion: a measuring tool is believed only when it finds effects that somebody knows. So the engine
// declares the true multiplicative effect of every lever, paces tokens by absolute deadlines (a late
// wake-up never accumulates, so the rate stays exact on a busy machine), writes text that depends on the
// prompt alone, and breaks on demand in every way a real engine was seen to break. It is a real process
// with a real socket; nothing in it knows that it is being measured. The client that reads it is
// builtins/client, the package that launches it is builtins/engine.
package simengine

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// Exit codes of Main.
const (
	exitOK    = 0
	exitRun   = 1 // the engine failed while it ran
	exitUsage = 2 // unknown flag, unknown lever: the same every time
)

// command is the word under which the binary runs this engine; it re-executes itself with it for
// --leave-child.
const command = "sim-engine"

const usage = `usage: sim-engine serve --port P [flags]
       sim-engine bench --csv FILE --prompt-tokens N --gen-tokens N [flags]

Both forms take the same engine flags; see sim-engine serve --help.
`

// Main runs the embedded engine with the arguments after the command word and returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch args[0] {
	case "serve":
		return serve(ctx, args[1:], os.Environ(), stderr)
	case "bench":
		return bench(ctx, args[1:], os.Environ(), stdout, stderr)
	case "sleep": // hidden: the child of --leave-child
		return sleep(args[1:], stdout, stderr)
	case "help", "-h", "--help":
		fmt.Fprint(stdout, usage)
		return exitOK
	}
	fmt.Fprintf(stderr, "sim: got form %q, want serve or bench\n%s", args[0], usage)
	return exitUsage
}

// usageCode is the exit code of a refused command line, after its message was printed.
func usageCode(err error, stderr io.Writer) int {
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	fmt.Fprintf(stderr, "sim: error: %v\n", err)
	return exitUsage
}

// sleep is the process that --leave-child leaves behind: it holds nothing and ends by itself. With
// "detach" in front it starts the real sleeper in a session of its own, prints its pid and ends, so that
// the sleeper is nobody's child.
func sleep(args []string, stdout, stderr io.Writer) int {
	detach := len(args) == 2 && args[0] == "detach"
	if detach {
		args = args[1:]
	}
	if len(args) != 1 {
		fmt.Fprintln(stderr, "sim: sleep: want seconds")
		return exitUsage
	}
	seconds, err := strconv.Atoi(args[0])
	if err != nil || seconds < 0 {
		fmt.Fprintf(stderr, "sim: sleep: got %q, want seconds\n", args[0])
		return exitUsage
	}
	if detach {
		cmd, err := detached(command, "sleep", args[0])
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			fmt.Fprintf(stderr, "sim: sleep: %v\n", err)
			return exitRun
		}
		fmt.Fprintln(stdout, cmd.Process.Pid)
		return exitOK
	}
	signal.Ignore(syscall.SIGTERM, os.Interrupt, syscall.SIGHUP)
	time.Sleep(time.Duration(seconds) * time.Second)
	return exitOK
}
