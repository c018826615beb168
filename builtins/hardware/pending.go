package hardware

import "flow/workflows/record"

type none struct{ name string }

func (n none) Name() string                              { return n.name }
func (n none) Sensors() []record.Sensor                  { return nil }
func (n none) Sample(int64, func(string, float64)) error { return nil }
func (n none) Close() error                              { return nil }

type gpuLibrary interface{}

func openMeminfo(o Options) Source   { return none{"meminfo"} }
func openVmstat(o Options) Source    { return none{"vmstat"} }
func openLoadavg(o Options) Source   { return none{"loadavg"} }
func openPressure(o Options) Source  { return none{"psi"} }
func openStat(o Options) Source      { return none{"stat"} }
func openDiskstats(o Options) Source { return none{"disk"} }
func openCpufreq(o Options) Source   { return none{"cpufreq"} }
func openEngine(o Options) Source    { return none{"engine"} }
func openSelf(o Options) Source      { return none{"self"} }
func openNVML(o Options) Source      { return none{"nvml"} }
