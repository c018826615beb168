package script

import (
	"io/fs"
	"strings"

	"go.starlark.net/syntax"
)

// exporting is the label of the library file that defines name, "" when there is none. The library is only
// parsed, and only when an error asks.
func (l *Loader) exporting(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.exports == nil {
		l.exports = make(map[string]string)
		if l.Library != nil {
			l.index()
		}
	}
	return l.exports[name]
}

func (l *Loader) index() {
	_ = fs.WalkDir(l.Library, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(name, ".star") {
			return nil
		}
		text, err := fs.ReadFile(l.Library, name)
		if err != nil {
			return nil
		}
		tree, err := options().Parse(name, text, 0)
		if err != nil {
			return nil
		}
		for _, s := range tree.Stmts {
			id := ""
			switch s := s.(type) {
			case *syntax.DefStmt:
				id = s.Name.Name
			case *syntax.AssignStmt:
				if x, ok := s.LHS.(*syntax.Ident); ok {
					id = x.Name
				}
			}
			if id != "" && id[0] != '_' && l.exports[id] == "" {
				l.exports[id] = LibraryPrefix + name
			}
		}
		return nil
	})
}
