package command

import (
	"os"
	"strconv"
	"testing"
)

func alive(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, state, _, ok := parseStat(string(b))
	return ok && state != "Z" && state != "X"
}

func TestParseStat(t *testing.T) {
	for _, c := range []struct {
		text, comm, state string
		group             int
		ok                bool
	}{
		{"47 (sleep) S 1 46 45 0 -1", "sleep", "S", 46, true},
		{"47 (a ) (b) Z 1 46 45", "a ) (b", "Z", 46, true},
		{"47 (sleep) S 1", "", "", 0, false},
		{"47 )sleep( S 1 2 3", "", "", 0, false},
		{"", "", "", 0, false},
	} {
		comm, state, group, ok := parseStat(c.text)
		if comm != c.comm || state != c.state || group != c.group || ok != c.ok {
			t.Errorf("%q: got %q %q %d %v", c.text, comm, state, group, ok)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("47 (sleep) S 1 46 45 0 -1")
	f.Add("47 (a ) (b) Z 1 46 45")
	f.Fuzz(func(t *testing.T, text string) { parseStat(text) })
}
