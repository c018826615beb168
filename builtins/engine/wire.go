package engine

// What flow and its supervisor say to each other: one JSON value per line. Orders go down the supervisor's
// standard input, whose end means that flow is gone; reports come back on its standard output. Standard
// error is the engine's log, so that even a panic of the supervisor is found there.

// Orders.
const (
	opLaunch = "launch" // first, once: Spec
	opStop   = "stop"   // signal, grace, kill, sweep; then the supervisor ends
	opHurry  = "hurry"  // during a stop: the grace now ends HurryMS from now
)

type order struct {
	Op      string `json:"op"`
	Spec    *spec  `json:"spec,omitempty"`
	Signal  int    `json:"signal,omitempty"`
	GraceMS int64  `json:"grace_ms,omitempty"`
}

// spec is a launch with nothing left to resolve. Bytes, because paths and values need not be UTF-8.
type spec struct {
	Path   []byte   `json:"path"`
	Argv   [][]byte `json:"argv"`
	Env    [][]byte `json:"env"`
	Dir    []byte   `json:"dir"`
	Stdout bool     `json:"stdout"` // descriptor 3 takes standard output apart from the log
	Cgroup []byte   `json:"cgroup"` // folder to make, "" for none
}

// Events.
const (
	evStarted = "started" // Pid, Tid, StartTicks, NS, Cgroup
	evFailed  = "failed"  // Error, Errno, Step: nothing was started, and the supervisor ends
	evExit    = "exit"    // the engine itself: Code or Signal, NS, OOM
	evStopped = "stopped" // By, Left, Remain, OOM: the last word
)

type report struct {
	Event      string   `json:"event"`
	Pid        int      `json:"pid,omitempty"`
	Tid        int      `json:"tid,omitempty"` // of the supervisor's thread that forked
	StartTicks uint64   `json:"start_ticks,omitempty"`
	NS         int64    `json:"ns,omitempty"` // the machine's monotonic clock
	Cgroup     string   `json:"cgroup,omitempty"`
	Error      string   `json:"error,omitempty"`
	Errno      int      `json:"errno,omitempty"`
	Code       *int     `json:"code,omitempty"`
	Signal     int      `json:"signal,omitempty"`
	OOM        bool     `json:"oom,omitempty"`
	By         string   `json:"by,omitempty"`
	Left       []string `json:"left,omitempty"`   // killed after the stop
	Remain     []string `json:"remain,omitempty"` // could not be killed
}

// toBytes and toStrings cross the wire.
func toBytes(in []string) [][]byte {
	out := make([][]byte, len(in))
	for i, s := range in {
		out[i] = []byte(s)
	}
	return out
}

func toStrings(in [][]byte) []string {
	out := make([]string, len(in))
	for i, b := range in {
		out[i] = string(b)
	}
	return out
}
