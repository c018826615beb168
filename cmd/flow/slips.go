package main

// Slips on the command line: what was probably meant, to paste.

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"flow/builtins"
	"flow/starlark/diag"
)

// unknownFlag is a flag in the words of pflag.
var unknownFlag = regexp.MustCompile(`^unknown flag: --([A-Za-z_][\w-]*)`)

// flagFix is what to write instead of a flag that cmd does not have: a near one, or --set where it takes
// parameters, with the value that was given.
func flagFix(cmd *cobra.Command, err error, args []string) string {
	help := "flow " + cmd.Name() + " --help"
	m := unknownFlag.FindStringSubmatch(err.Error())
	if m == nil {
		return help
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	if near := diag.Nearest(m[1], known); near != "" {
		return "did you mean --" + near + "? " + help + " lists them"
	}
	if cmd.Flags().Lookup("set") == nil {
		return help
	}
	given := "VALUE"
	for i, a := range args {
		if v, ok := strings.CutPrefix(a, "--"+m[1]+"="); ok {
			given = v
		} else if a == "--"+m[1] && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			given = args[i+1]
		}
	}
	return "a parameter of the workflow is set with --set " + m[1] + "=" + given
}

// wordsFix is what to write instead of arguments that cmd does not take.
func wordsFix(cmd *cobra.Command, args []string) string {
	if cmd.Flags().Lookup("set") != nil {
		for _, a := range args {
			if name, _, ok := strings.Cut(a, "="); ok && name != "" && !strings.ContainsAny(name, "./ ") {
				return "a parameter of the workflow is set with --set " + a
			}
		}
	}
	return "flow " + cmd.Name() + " --help"
}

// fileFix is what to write instead of a file that is not there.
func fileFix(path string) string {
	dir := filepath.Dir(path)
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".star") && !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	near := filepath.Base(path) + ".star"
	if !slices.Contains(names, near) {
		near = diag.Nearest(filepath.Base(path), names)
	}
	if near != "" {
		return "did you mean " + filepath.Join(dir, near) + "?"
	}
	return "name a .star file; the checkout's examples/ has some to begin with"
}

// setFix is --set as it should have been: with the default of the parameter of that name in the file.
func setFix(file, name string) string {
	w, err := loadWorkflow(context.Background(), file, loadOptions{standIns: true})
	if err != nil {
		return "--set " + name + "=VALUE"
	}
	for _, p := range w.env.Declared() {
		if p.Name == name && p.Default != "" {
			return "--set " + name + "=" + typed(map[string]string{name: p.Default})[name]
		}
	}
	return "--set " + name + "=VALUE"
}

// pageFix is the page that was probably meant, or the section of that name in another.
func pageFix(name string) string {
	if near := diag.Nearest(name, pages()); near != "" {
		return "flow doc " + near
	}
	for _, p := range pages() {
		b, _ := docFS.ReadFile("doc/" + p + ".md")
		if _, ok := section(string(b), name); ok {
			return "flow doc " + p + " " + name
		}
	}
	return "flow doc"
}

// headingFix is the heading that was probably meant: one that has the word, else a near one; "" for none.
func headingFix(want string, all []string) string {
	want = strings.ToLower(strings.TrimSpace(want))
	for _, h := range all {
		if slices.Contains(strings.Fields(h), want) {
			return h
		}
	}
	return diag.Nearest(want, all)
}

// takers are the builtins that have a parameter of that name.
func takers(param string) (out []string) {
	for _, b := range builtins.Catalog() {
		for _, p := range b.Signature().Params {
			if p.Name == param {
				out = append(out, b.Name)
			}
		}
	}
	return out
}
