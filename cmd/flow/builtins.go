package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"flow/builtins"
	"flow/starlark/diag"
)

func newBuiltinsCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "builtins [NAME]",
		Short: "Explain what a workflow can say",
		Long: "List the builtins of the language, or explain one: its signature, its parameters and an example. NAME may also be a\n" +
			"function of the library (screen, sim_server), what a function gets (session, arm, process) or a record\n(result, comparison, arm, metric).",
		Example:           "  flow builtins\n  flow builtins lever\n  flow builtins confirm.log\n  flow builtins screen\n  flow builtins result",
		Args:              workflowArgs(cobra.MaximumNArgs(1)),
		ValidArgsFunction: builtinNames,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listBuiltins(a, asJSON)
			}
			found := explain(args[0])
			if len(found) == 0 {
				return usage("builtins", fmt.Sprintf("no builtin %q%s", args[0], within(args[0])), nearWord(args[0]))
			}
			for i, x := range found {
				if asJSON {
					if err := json.NewEncoder(a.stdout).Encode(map[string]string{"name": x.name, "doc": x.doc, "text": x.text}); err != nil {
						return err
					}
					continue
				}
				if i > 0 {
					fmt.Fprintln(a.stdout)
				}
				fmt.Fprintln(a.stdout, strings.TrimRight(x.text, "\n"))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

func listBuiltins(a *app, asJSON bool) error {
	for _, b := range builtins.Catalog() {
		if asJSON {
			if err := json.NewEncoder(a.stdout).Encode(map[string]string{"name": b.Name, "doc": b.Doc}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.stdout, "%-26s %s\n", b.Name, firstSentence(b.Doc))
	}
	if !asJSON {
		fmt.Fprint(a.stdout, "\nrecords: ")
		for i, r := range builtins.Records() {
			if i > 0 {
				fmt.Fprint(a.stdout, ", ")
			}
			fmt.Fprint(a.stdout, r.Name)
		}
		fmt.Fprintln(a.stdout, "\nfunctions of the library, to load: flow doc library lists them, flow builtins NAME explains one")
	}
	return nil
}

// within names builtins that contain what was asked for.
func within(name string) string {
	var out []string
	for _, n := range words() {
		if strings.Contains(n, name) || strings.Contains(name, n) {
			out = append(out, n)
		}
	}
	if len(out) > 8 {
		out = append(out[:8], fmt.Sprintf("and %d more", len(out)-8))
	}
	if len(out) == 0 {
		return ""
	}
	return "; there is " + strings.Join(out, ", ")
}

func builtinNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return words(), cobra.ShellCompDirectiveNoFileComp
}

// firstSentence is the beginning of an explanation.
func firstSentence(doc string) string {
	doc, _, _ = strings.Cut(doc, "\n")
	first, _, more := strings.Cut(doc, ". ")
	if more {
		first += "."
	}
	return first
}

// words are all names that can be explained.
func words() []string {
	var out []string
	for _, b := range builtins.Catalog() {
		out = append(out, b.Name)
	}
	out = append(out, "session", "arm", "process", "result", "comparison", "metric record")
	for _, f := range libraryFunctions() {
		out = append(out, f.name)
	}
	return out
}

// nearWord is the name that was probably meant, as a command.
func nearWord(name string) string {
	if near := diag.Nearest(name, words()); near != "" {
		return "flow builtins " + near
	}
	if of := takers(name); len(of) > 0 {
		return name + " is a parameter: flow builtins " + strings.Join(of[:min(3, len(of))], ", or flow builtins ")
	}
	return "flow builtins; flow doc library"
}

// explained is one answer to a name.
type explained struct{ name, doc, text string }

// explain gives all that a name stands for: a builtin, the methods of what a function gets, a record, a
// function of the library.
func explain(name string) (out []explained) {
	if b, ok := builtins.Lookup(name); ok {
		out = append(out, explained{b.Name, b.Doc, builtins.Describe(b)})
	}
	for _, f := range builtins.Families() {
		var methods []string
		for _, b := range f.Builtins {
			if strings.HasPrefix(b.Name, name+".") {
				for i, l := range foldCell(firstSentence(b.Doc), 74) {
					name := b.Name
					if i > 0 {
						name = ""
					}
					methods = append(methods, fmt.Sprintf("  %-24s %s", name, l))
				}
			}
		}
		if len(methods) > 0 {
			out = append(out, explained{name, f.Doc, name + "\n\n" + strings.Join(foldCell(f.Doc, 100), "\n") + "\n\n" + strings.Join(methods, "\n") + "\n"})
		}
	}
	if r, ok := builtins.LookupRecord(name); ok {
		out = append(out, explained{r.Name, r.Doc, r.Describe()})
	}
	for _, f := range libraryFunctions() {
		if f.name == name {
			out = append(out, explained{f.name, f.doc, f.describe()})
		}
	}
	return out
}
