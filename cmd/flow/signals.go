package main

import (
	"os"
	"time"
)

// together is how far apart signals may come and be one: timeout(1) and some shells pass on what the terminal sent to
// the whole process group anyway, so that one Ctrl-C arrives twice.
const together = 200 * time.Millisecond

// watchSignals calls first for the first signal, and again for one that comes when the first is over.
func watchSignals(signals <-chan os.Signal, together time.Duration, first func(os.Signal), again func()) {
	first(<-signals)
	over := time.After(together)
	for {
		select {
		case <-signals:
			continue
		case <-over:
		}
		break
	}
	<-signals
	again()
}
