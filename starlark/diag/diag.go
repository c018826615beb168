// Package diag holds the one error that flow shows to people: where, what, and what to write instead.
//
// Its opinion: an error without a position or a fix is half an error. The package imports the standard
// library only, so that every layer may return its errors without reaching Starlark.
package diag

import (
	"errors"
	"fmt"
	"strings"
)

// Pos is a place in a workflow file. File is a label ("stack-screen.star", "@flow//gates.star"), never a
// machine path. The zero Pos means "no place".
type Pos struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	Col  int    `json:"col,omitempty"`
}

// IsZero reports whether p names no place.
func (p Pos) IsZero() bool { return p.File == "" && p.Line == 0 }

// String is "file:line:col", without the parts that are unknown.
func (p Pos) String() string {
	switch {
	case p.IsZero():
		return ""
	case p.Line == 0:
		return p.File
	case p.Col == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Kind says whose mistake an error is, and so which exit code the command ends with.
type Kind uint8

// The kinds, with their exit codes.
const (
	Bug      Kind = iota // 70: flow itself is wrong
	Workflow             // 2: the workflow or the command line is wrong
	Machine              // 3: the machine is wrong
	Stopped              // 4: stopped early by signal or budget; resumable
)

// ExitCode is the process exit code of the kind.
func (k Kind) ExitCode() int {
	switch k {
	case Workflow:
		return 2
	case Machine:
		return 3
	case Stopped:
		return 4
	}
	return 70
}

// Frame is one step of a call stack below the user's line.
type Frame struct {
	Pos  Pos
	Name string // function name, "<toplevel>" for a file's top level
}

// Error is an error with a place and a fix. Every field but Msg or Err may be empty.
type Error struct {
	Pos  Pos     // the innermost place outside @flow//
	Via  []Frame // frames inside @flow// and outer frames of the user, innermost first
	Kind Kind
	Op   string // what was being done: "lever", "launch engine llama"
	Msg  string // what is wrong, lower case: "got string, want dict"
	Fix  string // something to paste or to do; empty when there is none
	Err  error  // the cause, printed after Msg
}

// Error is one line: place, operation, message, cause.
func (e *Error) Error() string {
	var b strings.Builder
	if p := e.Pos.String(); p != "" {
		b.WriteString(p + ": ")
	}
	if e.Op != "" {
		b.WriteString(e.Op + ": ")
	}
	b.WriteString(e.Msg)
	if e.Err != nil {
		if e.Msg != "" {
			b.WriteString(": ")
		}
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf is the kind of the innermost *Error in err's chain; ok is false where there is none.
func KindOf(err error) (kind Kind, ok bool) {
	var e *Error
	for errors.As(err, &e) {
		kind, ok = e.Kind, true
		if e.Err == nil {
			break
		}
		err = e.Err
		e = nil
	}
	return kind, ok
}

// Format is the full text for a terminal: the line, the frames below it, and the fix.
func Format(err error) string {
	var e *Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	var b strings.Builder
	b.WriteString(err.Error())
	for _, f := range e.Via {
		fmt.Fprintf(&b, "\n\tin %s at %s", f.Name, f.Pos)
	}
	if fix := FixOf(err); fix != "" {
		b.WriteString("\n\tfix: " + strings.ReplaceAll(fix, "\n", "\n\t     "))
	}
	return b.String()
}

// FixOf is the outermost fix in err's chain, "" where there is none.
func FixOf(err error) string {
	for {
		var e *Error
		switch {
		case !errors.As(err, &e):
			return ""
		case e.Fix != "":
			return e.Fix
		case e.Err == nil:
			return ""
		}
		err = e.Err
	}
}
