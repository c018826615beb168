package engine

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"flow/builtins/owner"
)

// The overhead of owning an engine: BenchmarkLaunch minus BenchmarkExec. A command engine's arm may cost
// 20 ms beyond the engine's own time.

func BenchmarkLaunch(b *testing.B) {
	own, err := owner.Begin(b.TempDir(), "s", func() int64 { return 1 })
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = own.End() }()
	for _, cgroups := range []string{"", "off"} {
		b.Run("cgroups="+cgroups, func(b *testing.B) { benchLaunch(b, cgroups, own) })
	}
	b.Run("no record", func(b *testing.B) { benchLaunch(b, "off", nil) })
}

func benchLaunch(b *testing.B, cgroups string, own *owner.Owner) {
	o := testOptions()
	o.Owner = own
	o.Cgroups = cgroups
	l := Launch{}
	l.Engine.Name = "true"
	l.Command.Argv = []string{"true"}
	l.Out, l.Root = b.TempDir(), b.TempDir()
	for b.Loop() {
		p, err := Start(context.Background(), o, l)
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Wait(context.Background()); err != nil {
			b.Fatal(err)
		}
		if err := p.Stop(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExec(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReexec is what it costs to run this binary again as a supervisor that has nothing to do.
func BenchmarkReexec(b *testing.B) {
	for b.Loop() {
		if err := exec.Command(os.Args[0], "supervise").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTree(b *testing.B) {
	p := start(b, launchOf("sleep"))
	for b.Loop() {
		if len(p.Tree()) == 0 {
			b.Fatal("no process")
		}
	}
}
