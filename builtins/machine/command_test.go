package machine

import (
	"errors"
	"testing"

	"flow/builtins/command"
)

// A command of a setting that leaves a child behind neither hangs nor goes unnamed.
func TestRunCommandLeavesNothing(t *testing.T) {
	var left *command.LeftError
	out, err := RunCommand(t.Context(), []string{"sh", "-c", "sleep 600 & echo 3"})
	if out != "3\n" || !errors.As(err, &left) || len(left.Left) == 0 {
		t.Errorf("got %q, %v", out, err)
	}
}
