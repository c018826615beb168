package measure

import (
	"strings"
	"testing"
)

func TestVersionInLog(t *testing.T) {
	const log = "strata generate: loaded 20.1 GiB\nstrata generate: session is up (engine 0.1.38)\n"
	for _, c := range []struct{ pattern, want string }{
		{"", ""},
		{`session is up \(engine ([^)\s]+)\)`, "0.1.38"},
		{`version ([0-9]+)$`, "unknown: no line of the log"},
		{`session`, "unknown: no line of the log"}, // no group, nothing to tell
	} {
		if got := versionInLog(c.pattern, log); got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%q: got %q, want %q", c.pattern, got, c.want)
		}
	}
}
