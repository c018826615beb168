//go:build !linux

package client

import (
	"fmt"
	"runtime"
)

// Pin keeps this process on some CPUs; here it cannot.
func Pin([]int) (undo func(), err error) {
	return nil, fmt.Errorf("pinning the client: not supported on %s", runtime.GOOS)
}
