package client

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestPin(t *testing.T) {
	var before, during, after unix.CPUSet
	_ = unix.SchedGetaffinity(0, &before)
	one := -1
	for i := range 1024 {
		if before.IsSet(i) {
			one = i
			break
		}
	}
	undo, err := Pin([]int{one})
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.SchedGetaffinity(0, &during)
	if during.Count() != 1 || !during.IsSet(one) {
		t.Errorf("got %d CPUs, want CPU %d alone", during.Count(), one)
	}
	undo()
	_ = unix.SchedGetaffinity(0, &after)
	if after != before {
		t.Errorf("got %v after, %v before", after, before)
	}
	if _, err := Pin([]int{1023}); err == nil {
		t.Error("a CPU that is not there was accepted")
	}
}
