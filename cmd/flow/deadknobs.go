package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// deadKnobs are the environment variables of levers that are in no byte of the engine's program or of the
// libraries beside it, and that the C library does not read. It says nothing of scripts, whose engines are elsewhere, of programs that are not on
// this machine, and of a lever that has evidence of its own kind: programs also make names at run time.
func deadKnobs(g *record.Group) (out []string) {
	for _, side := range g.Sides {
		if len(side.Command.Argv) == 0 {
			continue
		}
		code := programOf(side.Command)
		if code == nil {
			continue
		}
		for _, l := range side.Stack {
			lever, err := leverOf(l)
			if err != nil || confirmedElse(lever) {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(lever.Env)) {
				w := fmt.Sprintf("dead knob: lever %s sets %s, a name that is nowhere in %s: it can only be neutral", l.Name, name, filepath.Base(code[0]))
				if !slices.Contains(out, w) && !ofLibc(name) && !anyHas(code, name) {
					out = append(out, w)
				}
			}
		}
	}
	return out
}

// programOf is the files of a program and its libraries; nil for a script or what is not here.
func programOf(c record.Command) []string {
	name := c.Argv[0]
	if strings.Contains(name, "{") {
		return nil
	}
	if c.Dir != "" && strings.Contains(name, "/") && !filepath.IsAbs(name) {
		name = filepath.Join(c.Dir, name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return nil
	}
	base := filepath.Base(path)
	for _, runner := range []string{"python", "node", "bash", "sh", "java", "ruby", "perl", "env", "uv", "docker", "podman"} {
		if strings.HasPrefix(base, runner) {
			return nil
		}
	}
	if head, err := os.ReadFile(path); err != nil || bytes.HasPrefix(head, []byte("#!")) {
		return nil
	}
	return codeOf(path)
}

func anyHas(files []string, name string) bool {
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil || bytes.Contains(b, []byte(name)) {
			return true // what cannot be read is no proof
		}
	}
	return false
}

func leverOf(l record.Lever) (plan.Lever, error) { return plan.LeverFromRecord(l) }

// confirmedElse: the lever is confirmed by something that only the running engine can say.
func confirmedElse(l plan.Lever) bool {
	return slices.ContainsFunc(l.Confirm, func(c plan.Confirm) bool {
		return c.Kind == plan.ConfirmLog || c.Kind == plan.ConfirmHTTP || c.Kind == plan.ConfirmMetric
	})
}
