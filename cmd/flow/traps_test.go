package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every trap of the table has a test, and every test named there exists.
func TestTrapsHaveTests(t *testing.T) {
	text, err := os.ReadFile("doc/traps.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	err = filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		code, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(code), -1) {
			tests[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		m := regexp.MustCompile(`^\| (T\d+) [^|]+\|[^|]+\| ([^|]+) \|`).FindStringSubmatch(line)
		if m == nil {
			continue
		}
		rows[m[1]] = true
		for _, name := range strings.Split(m[2], ", ") {
			if !tests[name] {
				t.Errorf("%s: there is no test %s", m[1], name)
			}
		}
	}
	for _, want := range strings.Fields("T1 T2 T3 T4 T5 T6 T7 T8 T9 T10 T11 T12 T13 T14 T15 T16 T17 T18 T19 T20 T21 T22 T23 T24 T25 T26 T27 T28 T29 T30 T31 T32 T33 T34") {
		if !rows[want] {
			t.Errorf("no row of %s", want)
		}
	}
}
