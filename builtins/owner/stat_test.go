package owner

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseStat(t *testing.T) {
	const tail = " 4700 4711 4712 34816 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 8123456 1"
	for _, c := range []struct {
		text string
		want Stat
		ok   bool
	}{
		{"4711 (llama-server) S" + tail, Stat{4711, 4700, 4711, 4712, 'S', "llama-server", 8123456, 34816}, true},
		{"4711 (a ) (b) Z" + tail, Stat{4711, 4700, 4711, 4712, 'Z', "a ) (b", 8123456, 34816}, true},
		{"4711 (x) S 1 2 3", Stat{}, false},
		{"4711 )x( S" + tail, Stat{}, false},
		{"x (x) S" + tail, Stat{}, false},
		{"", Stat{}, false},
	} {
		if got, ok := parseStat(c.text); got != c.want || ok != c.ok {
			t.Errorf("%q: got %+v %t, want %+v %t", c.text, got, ok, c.want, c.ok)
		}
	}
}

// What can be read is what was written.
func FuzzParseStat(f *testing.F) {
	f.Add("0()\xff" + strings.Repeat(" 0", 19))
	f.Add("4711 (a ) (b) Z 4700 4711 4712 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 8123456 1")
	f.Fuzz(func(t *testing.T, text string) {
		s, ok := parseStat(text)
		if !ok {
			return
		}
		again, ok := parseStat(fmt.Sprintf("%d (%s) %s %d %d %d %d"+strings.Repeat(" 0", 14)+" %d", s.PID, s.Comm, []byte{s.State}, s.Parent, s.Group, s.SID, s.TTY, s.Start))
		if !ok || again != s {
			t.Fatalf("%q: %+v, then %+v, %v", text, s, again, ok)
		}
	})
}
