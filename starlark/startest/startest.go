// Package startest runs tests written in Starlark.
package startest

import (
	"testing"

	"flow/starlark/script"
)

// Run runs every function test_* of the file as a subtest.
func Run(t *testing.T, l *script.Loader, label string) { t.Helper() }

// Golden runs every chunk of a file split by "---" and compares the error with the lines "#> ".
func Golden(t *testing.T, newLoader func() *script.Loader, path string) { t.Helper() }
