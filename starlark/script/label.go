package script

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"flow/starlark/diag"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// LibraryPrefix starts the label of every library file.
const LibraryPrefix = "@flow//"

// resolveLabel is the label of a file named in a load statement of the file from ("" for the outermost).
// A label stays within the folder it starts in: the workflow's, or the library.
func resolveLabel(from, label string) (string, error) {
	refuse := func(msg, fix string) (string, error) {
		return "", &diag.Error{Kind: diag.Workflow, Op: "load", Msg: fmt.Sprintf("%q %s", label, msg), Fix: fix}
	}
	const forms = `name it relative to this file ("gates.star", "./lib/gates.star"), from the workflow's folder ("//lib/gates.star"), or in the library ("@flow//gates.star")`
	prefix, dir, rest := "", "", label
	switch {
	case label == "":
		return refuse("is empty", forms)
	case strings.ContainsAny(label, "\\\x00") || !utf8.ValidString(label):
		return refuse("is not a file name", "write labels with forward slashes: "+forms)
	case strings.HasPrefix(label, LibraryPrefix):
		prefix, rest = LibraryPrefix, label[len(LibraryPrefix):]
	case strings.HasPrefix(label, "@"):
		return refuse("names an unknown library", `there is one library, "@flow//": `+forms)
	case strings.HasPrefix(label, "//"):
		rest = label[2:]
		if strings.HasPrefix(from, LibraryPrefix) {
			prefix = LibraryPrefix
		}
	case strings.HasPrefix(label, "/"):
		return refuse("is an absolute path", "files are loaded from the workflow's folder only: "+forms)
	default:
		base := from
		if strings.HasPrefix(from, LibraryPrefix) {
			prefix, base = LibraryPrefix, from[len(LibraryPrefix):]
		}
		dir = path.Dir(base)
	}
	clean := path.Join(dir, rest)
	if clean == ".." || strings.HasPrefix(clean, "../") || strings.HasPrefix(clean, "/") {
		return refuse("is outside the workflow's folder", "copy the file into the folder of the workflow that is run")
	}
	if !fs.ValidPath(clean) || clean == "." || clean[0] == '@' { // "./@flow" would read as a library afterwards
		return refuse("is not a file name", forms)
	}
	return prefix + clean, nil
}

// read gives the file with its text; it is kept for Sources even when it does not parse.
func (l *Loader) read(label string) (*file, error) {
	fsys, name, where := l.Root, label, "the workflow's folder"
	if rest, ok := strings.CutPrefix(label, LibraryPrefix); ok {
		fsys, name, where = l.Library, rest, "the library"
	}
	fail := func(msg, fix string, err error) (*file, error) {
		return nil, &diag.Error{Kind: diag.Workflow, Op: "load", Msg: msg, Fix: fix, Err: err}
	}
	if fsys == nil {
		return fail(fmt.Sprintf("no file %q: %s is not set", label, where), "", nil)
	}
	if info, err := fs.Stat(fsys, name); err == nil {
		switch {
		case !info.IsDir() && !info.Mode().IsRegular(): // opening a FIFO waits for ever, and a device never ends
			return fail(fmt.Sprintf("%q is not a regular file", label), "name a .star file", nil)
		case info.Size() > maxSourceSize:
			return fail(fmt.Sprintf("%q has %d bytes, want at most %d", label, info.Size(), maxSourceSize), "keep data in files of their own", nil)
		}
	}
	text, err := fs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return fail("", l.missing(fsys, label, name), noFile(fmt.Sprintf("no file %q in %s", name, where)))
	}
	if err != nil {
		var pe *fs.PathError // its text has a machine path
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return fail(fmt.Sprintf("cannot read %q", label), "", err)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors begin UTF-8 with it; it says nothing
	sum := sha256.Sum256(text)
	f := &file{Source: Source{Label: label, SHA256: hex.EncodeToString(sum[:]), Text: string(text)}}
	f.lines = strings.Split(f.Text, "\n")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.files == nil {
		l.files = make(map[string]*file)
	}
	l.files[label] = f
	return f, nil
}

// noFile lets errors.Is find fs.ErrNotExist without saying it twice.
type noFile string

func (n noFile) Error() string      { return string(n) }
func (noFile) Is(target error) bool { return target == fs.ErrNotExist }

// missing is the fix for a file that is not there: its namesake in the library, or a near name.
func (l *Loader) missing(fsys fs.FS, label, name string) string {
	if !strings.HasPrefix(label, LibraryPrefix) && l.Library != nil {
		if rest, ok := strings.CutPrefix(name, strings.Trim(LibraryPrefix, "@/")+"/"); ok {
			if _, err := fs.Stat(l.Library, rest); err == nil {
				return fmt.Sprintf("the library begins with @: load(%q, …)", LibraryPrefix+rest)
			}
		}
		if _, err := fs.Stat(l.Library, name); err == nil {
			return fmt.Sprintf("the library has one: load(%q, …)", LibraryPrefix+name)
		}
	}
	if _, err := fs.Stat(fsys, name+".star"); err == nil {
		return fmt.Sprintf("did you mean %q?", name+".star")
	}
	entries, err := fs.ReadDir(fsys, path.Dir(name))
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".star") {
			names = append(names, e.Name())
		}
	}
	if near := diag.Nearest(path.Base(name), names); near != "" {
		return fmt.Sprintf("did you mean %q?", path.Join(path.Dir(name), near))
	}
	if len(names) > 0 && len(names) <= 20 {
		return "files there: " + strings.Join(names, ", ")
	}
	return ""
}

// compile parses and resolves a file and fills in its tree.
func (l *Loader) compile(f *file) (*starlark.Program, error) {
	tree, err := options().Parse(f.Label, f.Text, 0)
	if err != nil {
		return nil, l.diagnoseSource(f, err)
	}
	if _, err := starlark.FileProgram(tree, l.Predeclared.Has); err != nil { // it resolves the names, too
		return nil, l.diagnoseSource(f, err)
	}
	runs, err := options().Parse(f.Label, f.Text, 0)
	if err != nil {
		return nil, l.diagnoseSource(f, err)
	}
	bound(runs)
	prog, err := starlark.FileProgram(runs, bounded(l.Predeclared).Has)
	if err != nil {
		return nil, l.diagnoseSource(f, err)
	}
	defs := make(map[place]syntax.Node)
	syntax.Walk(tree, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.DefStmt:
			defs[place{n.Def.Line, n.Def.Col}] = n
		case *syntax.LambdaExpr:
			defs[place{n.Lambda.Line, n.Lambda.Col}] = n
		}
		return true
	})
	var globals []string
	for _, b := range tree.Module.(*resolve.Module).Globals {
		globals = append(globals, b.First.Name)
	}
	slices.Sort(globals)
	l.mu.Lock()
	defer l.mu.Unlock()
	f.tree, f.defs, f.globals = tree, defs, globals
	return prog, nil
}

// file is the file read under that label, nil when there is none.
func (l *Loader) file(label string) *file {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files[label]
}

// cycle says that label is being loaded already.
func cycle(label string, c *chain) error {
	names := []string{label}
	for ; c != nil; c = c.parent {
		names = append(names, c.label)
		if c.label == label {
			break
		}
	}
	slices.Reverse(names)
	return &diag.Error{Kind: diag.Workflow, Op: "load", Msg: "files load each other: " + strings.Join(names, " -> "),
		Fix: "move what both need into a third file, and load that one from both"}
}
