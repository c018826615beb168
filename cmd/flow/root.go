package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"flow/builtins/engine"
	"flow/builtins/engine/simengine"
)

// version is this build: the module's version, else the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	rev, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			rev = s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if rev == "" {
		return "devel"
	}
	return "devel-" + rev + dirty
}

// hiddenVerb gives the verbs that flow starts itself. They come before cobra, so that an engine's launch
// does not pay for building the command tree.
func hiddenVerb(args []string) (func(args []string, stdout, stderr io.Writer) int, bool) {
	if len(args) == 0 {
		return nil, false
	}
	switch args[0] {
	case "sim-engine":
		return simengine.Main, true
	case "supervise":
		return func(args []string, _, _ io.Writer) int { return engine.Supervise(args, os.Stdin, os.Stdout) }, true
	}
	return nil, false
}

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "flow",
		Short: "Screen levers of LLM inference engines, and trust the verdict",
		Long: `flow runs lever screens written in Starlark: it launches the engine with and without a lever in an
order that cancels drift, watches the machine, throws out arms whose conditions were wrong, judges what
is left, and keeps everything in one SQLite file.

Exit codes: 0 done, whatever the verdicts; 1 with --strict, a group ended invalid; 2 the workflow or the
command line is wrong; 3 the machine is wrong; 4 stopped early by a signal or by the session's budget,
resumable; 70 a bug in flow.`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 2,
		Args:                       knownVerb,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if a.dbPath == "" {
				return usage("--db", "got an empty name, want a file", "--db flow.db")
			}
			return nil
		},
	}
	root.PersistentFlags().StringVar(&a.dbPath, "db", a.dbPath, "database file (or FLOW_DB)")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("flow "+cmd.Name(), err.Error(), flagFix(cmd, err, a.args))
	})
	root.AddCommand(newRunCommand(a), newResumeCommand(a), newStopCommand(a), newStatusCommand(a), newCheckCommand(a), newPlanCommand(a), newCalibrateCommand(a), newBuiltinsCommand(a), newDocCommand(a),
		newSQLCommand(a), newSessionsCommand(a), newShowCommand(a), newDoctorCommand(a), newExportCommand(a), newLeversCommand(a), newReceiptCommand(a))
	// Help for a verb that does not exist is a mistake like the verb itself, and not the root's page.
	plain := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if rest := cmd.Flags().Args(); cmd == root && len(rest) > 0 {
			a.helpErr = knownVerb(cmd, rest)
			return
		}
		plain(cmd, args)
	})
	root.SetHelpCommand(&cobra.Command{
		Use: "help [COMMAND]", Short: "Explain a command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			switch {
			case err != nil:
				return knownVerb(root, args)
			case cmd == root && len(rest) > 0:
				return knownVerb(root, rest)
			}
			return cmd.Help()
		},
	})
	return root
}

// knownVerb refuses a verb that does not exist, with the one that was meant.
func knownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	fix := "flow --help"
	if args[0] == "version" {
		return usage("flow", `unknown command "version"`, "flow --version")
	}
	if strings.HasSuffix(args[0], ".star") {
		return usage("flow", fmt.Sprintf("unknown command %q", args[0]), "flow run "+args[0])
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		fix = "flow " + strings.Join(near, ", or flow ")
	}
	return usage("flow", fmt.Sprintf("unknown command %q", args[0]), fix)
}

// starFiles completes workflow files.
func starFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"star"}, cobra.ShellCompDirectiveFilterFileExt
}

// labelOf splits a workflow's path into the folder that confines it and its label there.
func labelOf(path string) (root, label string, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", "", err
	}
	return filepath.Dir(abs), filepath.Base(abs), nil
}
