package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"flow/builtins"
)

func newBuiltinsCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "builtins [NAME]",
		Short:             "Explain what a workflow can say",
		Long:              "List the builtins of the language, or explain one: its signature, its parameters and an example.",
		Example:           "  flow builtins\n  flow builtins lever\n  flow builtins confirm.log",
		Args:              workflowArgs(cobra.MaximumNArgs(1)),
		ValidArgsFunction: builtinNames,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listBuiltins(a, asJSON)
			}
			b, ok := builtins.Lookup(args[0])
			if !ok {
				return usage("builtins", fmt.Sprintf("no builtin %q%s", args[0], within(args[0])), "flow builtins")
			}
			if asJSON {
				return json.NewEncoder(a.stdout).Encode(map[string]string{"name": b.Name, "doc": b.Doc, "text": builtins.Describe(b)})
			}
			fmt.Fprintln(a.stdout, strings.TrimRight(builtins.Describe(b), "\n"))
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
		first, _, _ := strings.Cut(b.Doc, "\n")
		fmt.Fprintf(a.stdout, "%-26s %s\n", b.Name, first)
	}
	return nil
}

// within names builtins that contain what was asked for.
func within(name string) string {
	var out []string
	for _, b := range builtins.Catalog() {
		if strings.Contains(b.Name, name) || strings.Contains(name, b.Name) {
			out = append(out, b.Name)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "; there is " + strings.Join(out, ", ")
}

func builtinNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, b := range builtins.Catalog() {
		out = append(out, b.Name)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
