package owner

import (
	"testing"
	"time"
)

// What a launch pays for its record: written twice, removed once.
func BenchmarkRecord(b *testing.B) {
	o, err := Begin(b.TempDir(), "s", func() int64 { return 1 })
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = o.End() }()
	for b.Loop() {
		h := o.Hold("engine toy")
		for range 2 {
			if err := h.Keep(func(r *Record) { r.Port++ }); err != nil {
				b.Fatal(err)
			}
		}
		if err := h.Release(); err != nil {
			b.Fatal(err)
		}
	}
}

// What a command pays for the proof that nothing carries its mark: one look at every process.
func BenchmarkEnd(b *testing.B) {
	for b.Loop() {
		End("no such mark", time.Second)
	}
}
