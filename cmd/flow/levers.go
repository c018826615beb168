package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flow/starlark/diag"
)

// Bounds of looking at a binary.
const (
	helpWait  = 10 * time.Second
	helpBytes = 1 << 20
	codeBytes = 1 << 30
)

// knobs is what a binary can be told.
type knobs struct {
	Binary string   `json:"binary"`
	Flags  []flagOf `json:"flags"`
	Env    []string `json:"env"`            // names for which something speaks
	Other  []string `json:"env_other"`      // names in capitals that may be anything
	Help   string   `json:"help,omitempty"` // how the flags were got, or why not
}

// flagOf is one flag of a help text, with its other names.
type flagOf struct {
	Names  []string `json:"names"`
	Value  string   `json:"value,omitempty"`  // as the help names it; "" is a bare flag
	Joined bool     `json:"joined,omitempty"` // the value is a part of the flag: -T# is written -T4
	Doc    string   `json:"doc,omitempty"`
}

// words is the flag as a help text has it.
func (f flagOf) words() string {
	s := strings.Join(f.Names, ", ")
	if f.Value != "" && !f.Joined {
		s += " "
	}
	return s + f.Value
}

func newLeversCommand(a *app) *cobra.Command {
	var asJSON, all bool
	var out string
	cmd := &cobra.Command{
		Use:   "levers BINARY",
		Short: "List what a binary can be told: its flags and the environment names in it",
		Long: `levers runs BINARY --help and reads the flags from what it prints, and searches its bytes, and those of the
libraries beside it, for names of environment variables. With -o it writes a file to begin a screen with:
every flag and name as a lever, with a place for its value and its evidence. A name that is in no byte of a
program is a knob that does nothing.

Whether a name is read from the environment cannot be seen in the bytes. Names that the help mentions, that begin as
the program's own name does, that belong to the family of one it mentions or to a known engine or library, or that
have a word as switches do (DISABLE, CACHE, DEBUG) are shown; --all shows the other names in capitals as well, of which most are something else.`,
		Example: "  flow levers ./llama-server\n  flow levers ./ds4-server -o levers.star",
		Args:    workflowArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := knobsOf(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			switch {
			case out != "":
				if all {
					k.Env, k.Other = slices.Sorted(slices.Values(slices.Concat(k.Env, k.Other))), nil
				}
				if err := os.WriteFile(out, []byte(leverFile(k)), 0o644); err != nil {
					return &diag.Error{Kind: diag.Machine, Op: "levers", Err: err, Fix: "name another file with -o"}
				}
				fmt.Fprintf(a.stdout, "%s: %d flags, %d environment names\n", out, len(k.Flags), len(k.Env))
				return nil
			case asJSON:
				return json.NewEncoder(a.stdout).Encode(k)
			}
			return printKnobs(a.stdout, k, all)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	cmd.Flags().BoolVar(&all, "all", false, "every name in capitals, whatever speaks for it")
	cmd.Flags().StringVarP(&out, "output", "o", "", "write a starting lever file")
	return cmd
}

func knobsOf(ctx context.Context, binary string) (*knobs, error) {
	path, err := exec.LookPath(binary)
	if err != nil {
		return nil, &diag.Error{Kind: diag.Workflow, Op: "levers", Msg: fmt.Sprintf("cannot run %q", binary), Err: err, Fix: "name a program: flow levers ./llama-server"}
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	k := &knobs{Binary: path}
	help, how := helpOf(ctx, path)
	k.Flags, k.Help = parseFlags(help), how
	names := map[string]bool{}
	for _, file := range codeOf(path) {
		for _, n := range envNamesOf(file) {
			names[n] = true
		}
	}
	k.Env, k.Other = likelyEnv(slices.Sorted(maps.Keys(names)), help, filepath.Base(binary))
	return k, nil
}

// helpOf is what a program prints when it is asked for help. Some print it on standard error, some end with
// another code than 0; one that begins to serve is ended.
func helpOf(ctx context.Context, path string) (text, how string) {
	for _, flag := range []string{"--help", "-h"} {
		hctx, cancel := context.WithTimeout(ctx, helpWait)
		cmd := exec.CommandContext(hctx, path, flag)
		var b bytes.Buffer
		cmd.Stdout, cmd.Stderr = &b, &b
		cmd.WaitDelay = time.Second
		err := cmd.Run()
		cancel()
		if hctx.Err() != nil && ctx.Err() == nil && err != nil && strings.Contains(err.Error(), "killed") {
			how = flag + " did not end within " + helpWait.String()
			continue
		}
		if text := string(b.Bytes()[:min(b.Len(), helpBytes)]); len(parseFlags(text)) > 0 {
			return text, flag
		}
	}
	if how == "" {
		how = "neither --help nor -h prints flags"
	}
	return "", how
}

// codeOf is the binary and the libraries beside it: knobs of llama.cpp, for one, are in libggml.
func codeOf(path string) []string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path
	}
	out := []string{real}
	for _, dir := range []string{filepath.Dir(real), filepath.Join(filepath.Dir(real), "..", "lib")} {
		if slices.Contains([]string{"/bin", "/usr/bin", "/sbin", "/usr/sbin", "/lib", "/usr/lib"}, dir) {
			continue // the system's: what lies there is no part of this program
		}
		for _, glob := range []string{"*.so", "*.so.*", "*.dylib"} {
			found, _ := filepath.Glob(filepath.Join(dir, glob)) // the pattern is well formed
			for _, f := range found {
				if f, err = filepath.EvalSymlinks(f); err != nil || slices.Contains(out, f) {
					continue
				}
				if st, err := os.Stat(f); err == nil && st.Mode().IsRegular() && st.Size() <= codeBytes {
					out = append(out, f)
				}
			}
		}
	}
	return out
}

// flagLine is a line of a help text that names flags:
//
//	-t,    --threads N                      number of CPU threads to use during generation (default: -1)
//	  --ctx=TOKENS   context
//	-fa, --flash-attn [on|off|auto]
var (
	flagLine = regexp.MustCompile(`^\s{0,12}(-{1,2}[A-Za-z0-9][\w.-]*(?:[,/|]?\s+-{1,2}[A-Za-z0-9][\w.-]*|,-{1,2}[A-Za-z0-9][\w.-]*)*)(.*)$`)
	flagName = regexp.MustCompile(`-{1,2}[A-Za-z0-9][\w.-]*`)
	flagWord = regexp.MustCompile(`^(?:[ =]?(<[^>]+>|\[[^\]]+\]|\{[^}]+\}|#|[A-Z][A-Z0-9_.,|/=:-]*)|=(\S+))(?:\s|$)`)
)

// parseFlags reads the flags of a help text, in its order. Anything else is skipped.
func parseFlags(help string) []flagOf {
	var out []flagOf
	seen := map[string]bool{}
	for line := range strings.Lines(help) {
		m := flagLine.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if m == nil {
			continue
		}
		f := flagOf{Names: flagName.FindAllString(m[1], -1)}
		if seen[f.Names[len(f.Names)-1]] {
			continue
		}
		rest := m[2]
		if v := flagWord.FindStringSubmatch(rest); v != nil {
			f.Value = strings.Trim(v[1]+v[2], "<>")
			f.Joined = rest[0] != ' ' && rest[0] != '=' && strings.HasPrefix(f.Value, "#")
			rest = rest[len(v[0]):]
		}
		f.Doc = strings.Join(strings.Fields(rest), " ")
		for _, n := range f.Names {
			seen[n] = true
		}
		out = append(out, f)
	}
	return out
}

func printKnobs(w io.Writer, k *knobs, all bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nflags (%s)\n", k.Binary, k.Help)
	for _, f := range k.Flags {
		fmt.Fprintf(&b, "  %-40s %.100s\n", f.words(), f.Doc)
	}
	fmt.Fprintf(&b, "\nenvironment names in its bytes\n")
	for _, n := range k.Env {
		fmt.Fprintf(&b, "  %s\n", n)
	}
	switch {
	case all && len(k.Other) > 0:
		fmt.Fprintf(&b, "\nother names in capitals\n")
		for _, n := range k.Other {
			fmt.Fprintf(&b, "  %s\n", n)
		}
	case len(k.Other) > 0:
		fmt.Fprintf(&b, "\n%d more names in capitals, of which most are no variables: --all\n", len(k.Other))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// leverFile is a file to begin with. It loads as it is: every lever is there as a comment, to be taken in
// with a value and its evidence.
func leverFile(k *knobs) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\"\"\"Levers of %s, from its help and the names in its bytes.\n\nTake a line in, give it a value worth trying, and say what proves that it took effect.\n\"\"\"\n\nlevers = [\n", strings.ReplaceAll(filepath.Base(k.Binary), `"`, ""))
	for _, f := range k.Flags {
		name := f.Names[len(f.Names)-1]
		if strings.Contains(" --help --version --host --port --model -h ", " "+name+" ") {
			continue
		}
		value, arg := "True", f.Names[0]
		switch {
		case f.Joined: // one word of the command line: {"-T4": True}
			arg += f.Value
		case f.Value != "":
			value = fmt.Sprintf("%q", f.Value)
		}
		fmt.Fprintf(&b, "    # lever(%q, args = {%q: %s}, confirm = confirm.log(r\"…\")),%s\n", strings.TrimLeft(name, "-"), arg, value, comment(f.Doc))
	}
	for _, n := range k.Env {
		fmt.Fprintf(&b, "    # lever(%q, env = {%q: \"1\"}, confirm = confirm.log(r\"…\")),\n", strings.ToLower(strings.ReplaceAll(n, "_", "-")), n)
	}
	b.WriteString("]\n")
	return b.String()
}

func comment(doc string) string {
	if doc == "" {
		return ""
	}
	return "  # " + strings.ToValidUTF8(doc[:min(len(doc), 100)], "")
}
