// Package report tells what a group and a session found, in text that a person reads in a terminal or
// pastes into an issue.
//
// Its opinion: the verdict comes first, every ± says what it is, and what the field publishes (medians,
// gain of medians, pair deltas) stands beside it. A number is rounded to what its noise supports; what
// was not measured is a dash with its reason, never a zero. Warnings are footnotes, never lost.
package report

import (
	"io"

	"flow/workflows/record"
)

// Options say how text is laid out. The zero value is 80 columns of plain ASCII without colour.
type Options struct {
	Width   int  // columns; 80 when zero, never less than 60
	Unicode bool // ±, →, – and box lines
	Color   bool // decided by the caller, who knows the terminal
}

// Group writes the verdict block of a group.
func Group(w io.Writer, g *record.Group, o Options) error { return nil }

// Session writes the summary of a session and its groups.
func Session(w io.Writer, s *record.Session, groups []*record.Group, o Options) error { return nil }
