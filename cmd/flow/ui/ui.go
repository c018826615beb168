// Package ui shows a session that is going on and holds the rules of output.
package ui

import (
	"io"

	"flow/workflows/record"
)

// Options say how to show. The zero value asks the streams.
type Options struct {
	Quiet bool // nothing but results
	JSON  bool // events as JSON lines on stdout
}

// Live shows what goes on.
type Live struct{}

// New starts a live view. Results go to out, progress to err.
func New(out, err io.Writer, o Options) *Live { return &Live{} }

// Event takes one event; it never blocks.
func (l *Live) Event(e record.Event) {}

// Close draws what is left and gives the terminal back.
func (l *Live) Close() {}
