package ui

import (
	"strings"
	"testing"
)

func TestClean(t *testing.T) {
	for _, c := range []struct {
		in, want string
		limit    int
	}{
		{"plain\n\ttext", "plain\n\ttext", 0},
		{"\x1b]0;title\x07\x1b[2J\r", " ]0;title  [2J ", 0},
		{"a\u009bb\u202ec\x00\x7f", "a b c  ", 0},
		{"größe", "gr…", 3},
		{strings.Repeat("x", 10), "xxxx…", 4},
	} {
		if got := Clean(c.in, c.limit); got != c.want {
			t.Errorf("%q: got %q, want %q", c.in, got, c.want)
		}
	}
}
