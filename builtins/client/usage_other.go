//go:build !unix

package client

import "time"

func processorTimeNow() (time.Duration, bool) { return 0, false }
