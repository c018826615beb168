package hardware

// /proc/self/stat: what flow itself takes. A client that competes with the engine for a core is a reason
// to doubt an arm.

import (
	"os"
	"path/filepath"
)

func openSelf(o Options) Source {
	page := float64(os.Getpagesize())
	return openText(o, "self", filepath.Join(o.Proc, "self", "stat"), parseProcStat, []gauge[procStat]{
		{name: "self.cpu_s", unit: "s", counter: true, get: func(p *procStat) (float64, bool) { return number{p.utime + p.stime, true}.ticks() }},
		{name: "self.rss_mib", unit: "MiB", get: func(p *procStat) (float64, bool) { return float64(p.rssPages) * page / (1 << 20), true }},
		{name: "self.threads", unit: "threads", get: func(p *procStat) (float64, bool) { return float64(p.threads), true }},
	}, reason)
}
