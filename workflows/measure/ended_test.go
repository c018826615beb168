package measure

import (
	"strings"
	"testing"

	"flow/workflows/record"
)

func TestHowEnded(t *testing.T) {
	one := 1
	for _, c := range []struct {
		info record.Process
		want string
	}{
		{record.Process{StoppedBy: "itself", ExitCode: &one}, "exited by itself with code 1"},
		{record.Process{StoppedBy: "itself", Signal: "SIGSEGV"}, "was ended by SIGSEGV"},
		{record.Process{StoppedBy: "itself", Signal: "SIGKILL", OOMKilled: true}, "want of memory"},
		{record.Process{StoppedBy: "kill"}, "with its supervisor, which was killed from outside"},
		{record.Process{StoppedBy: "itself"}, "ended by itself"},
	} {
		if got := howEnded(&c.info); !strings.Contains(got, c.want) {
			t.Errorf("%+v: got %q, want %q", c.info, got, c.want)
		}
	}
}
