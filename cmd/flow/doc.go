package main

import (
	"embed"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// comments are marks for those who write the pages (where a tool fills in a table), with the line that is theirs
// alone and the empty one after it.
var comments = regexp.MustCompile(`(?s)<!--.*?-->[ \t]*(\n\n|\n)?`)

//go:embed doc/*.md
var docFS embed.FS

func newDocCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "doc [PAGE [SECTION]]",
		Short:   "Read the manual",
		Long:    "List the pages of the manual, or print one (Markdown), or one section of it: SECTION is its heading, or the\nbeginning of that.",
		Example: "  flow doc\n  flow doc verdicts\n  flow doc builtins levers",
		Args:    workflowArgs(cobra.ArbitraryArgs),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				b, _ := docFS.ReadFile("doc/" + args[0] + ".md")
				return headings(string(b)), cobra.ShellCompDirectiveNoFileComp
			}
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
				return usage("doc", fmt.Sprintf("no page %q; there is %s", args[0], strings.Join(pages(), ", ")), pageFix(args[0]))
			}
			b = comments.ReplaceAll(b, nil)
			text := string(b)
			if want := strings.Join(args[1:], " "); want != "" {
				var ok bool
				if text, ok = section(string(b), want); !ok {
					all := headings(string(b))
					fix := "flow doc " + args[0]
					if near := headingFix(want, all); near != "" {
						fix += " " + near
					}
					if len(all) > 40 {
						all = append(all[:40], fmt.Sprintf("and %d more", len(all)-40))
					}
					return usage("doc", fmt.Sprintf("page %s has no section %q; it has %s", args[0], want, strings.Join(all, ", ")), fix)
				}
			}
			_, err = io.WriteString(a.stdout, text)
			return err
		},
	}
}

// headings are those of a page below its title, in small letters.
func headings(page string) []string {
	var out []string
	for _, l := range prose(page) {
		if h := strings.TrimLeft(l, "#"); strings.HasPrefix(l, "##") {
			out = append(out, strings.ToLower(strings.TrimSpace(h)))
		}
	}
	return out
}

// prose is the lines of a page, with those of code emptied: a comment in code is no heading.
func prose(page string) []string {
	lines := strings.Split(page, "\n")
	code := false
	for i, l := range lines {
		if strings.HasPrefix(l, "```") {
			code = !code
		}
		if code {
			lines[i] = ""
		}
	}
	return lines
}

// section is the part of a page below a heading that is want, else below the first that begins with it.
func section(page, want string) (string, bool) {
	want = strings.ToLower(strings.TrimSpace(want))
	lines, bare := strings.SplitAfter(page, "\n"), prose(page)
	from, depth := -1, 0
	for i, l := range bare {
		level := len(l) - len(strings.TrimLeft(l, "#"))
		h := strings.ToLower(strings.TrimSpace(strings.TrimLeft(l, "#")))
		if level > 1 && (h == want || from < 0 && strings.HasPrefix(strings.TrimPrefix(h, "@flow//"), want)) {
			from, depth = i, level
			if h == want {
				break
			}
		}
	}
	if from < 0 {
		return "", false
	}
	to := from + 1
	for ; to < len(bare); to++ {
		if l := bare[to]; strings.HasPrefix(l, "#") && len(l)-len(strings.TrimLeft(l, "#")) <= depth {
			break
		}
	}
	return strings.TrimRight(strings.Join(lines[from:to], ""), "\n") + "\n", true
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
