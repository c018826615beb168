package ui

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Look is what a stream can show.
type Look struct {
	Width    int // columns; 80 where unknown
	Terminal bool
	Color    bool
	Unicode  bool // the locale says UTF-8
}

// fileOf is the file under a stream, nil where there is none.
func fileOf(w io.Writer) *os.File {
	switch w := w.(type) {
	case *os.File:
		return w
	case interface{ File() *os.File }:
		return w.File()
	}
	return nil
}

// LookOf asks a stream and the environment: NO_COLOR (any value but empty), TERM, LC_ALL, LC_CTYPE, LANG.
func LookOf(w io.Writer) Look {
	f := fileOf(w)
	return lookOf(f != nil && term.IsTerminal(int(f.Fd())), func() int { return columns(f) }, os.Getenv)
}

func lookOf(tty bool, cols func() int, env func(string) string) Look {
	k := Look{Width: 80, Unicode: utf8Locale(env)}
	if tty {
		k.Width = cols()
		dumb := env("TERM") == "dumb" || env("TERM") == ""
		k.Terminal = !dumb
		k.Color = !dumb && env("NO_COLOR") == ""
	}
	return k
}

// columns of a terminal; 80 where it does not say.
func columns(f *os.File) int {
	if cols, _, err := term.GetSize(int(f.Fd())); err == nil && cols > 0 {
		return cols
	}
	return 80
}

// utf8Locale says whether the locale is UTF-8, by the variables in their order of precedence.
func utf8Locale(env func(string) string) bool {
	for _, k := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(env(k)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}
