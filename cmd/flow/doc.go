package main

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
)

//go:embed doc/*.md
var docFS embed.FS

func newDocCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "doc [PAGE]",
		Short: "Read the manual",
		Long:  "List the pages of the manual, or print one (Markdown).",
		Args:  workflowArgs(cobra.MaximumNArgs(1)),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return pages(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				for _, p := range pages() {
					fmt.Fprintln(a.stdout, p)
				}
				return nil
			}
			b, err := docFS.ReadFile("doc/" + strings.TrimSuffix(args[0], ".md") + ".md")
			if err != nil {
				return usage("doc", fmt.Sprintf("no page %q; there is %s", args[0], strings.Join(pages(), ", ")), "flow doc")
			}
			_, err = a.stdout.Write(b)
			return err
		},
	}
}

func pages() []string {
	names, err := fs.Glob(docFS, "doc/*.md")
	if err != nil {
		return nil
	}
	for i, n := range names {
		names[i] = strings.TrimSuffix(strings.TrimPrefix(n, "doc/"), ".md")
	}
	return names
}
