package measure

// Files that an engine wrote and a metric names. Nobody knows what an engine puts there: a device has no
// end, a pipe that nobody writes to has no beginning.

import (
	"fmt"
	"io"

	"flow/builtins/machine"
)

// fileMost is how much of a file a metric is taken from.
const fileMost = 64 << 20

// readRegular reads a regular file of at most fileMost bytes.
func readRegular(path string) ([]byte, error) {
	f, err := machine.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, fileMost+1))
	if err == nil && len(b) > fileMost {
		return nil, fmt.Errorf("%s is larger than %d MiB", path, fileMost>>20)
	}
	return b, err
}
