//go:build linux && cgo

package hardware

// The real NVML. Written against go-nvml's interface, so that its published mocks stand in for it.

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func newGPULibrary() gpuLibrary { return &nvidia{lib: nvml.New()} }

type nvidia struct{ lib nvml.Interface }

func (n *nvidia) Open() error { return nvmlError(n.lib.Init()) }

func (n *nvidia) Close() error { return nvmlError(n.lib.Shutdown()) }

func (n *nvidia) Driver() (string, error) {
	v, ret := n.lib.SystemGetDriverVersion()
	return v, nvmlError(ret)
}

func (n *nvidia) GPUs() ([]gpu, error) {
	count, ret := n.lib.DeviceGetCount()
	if err := nvmlError(ret); err != nil {
		return nil, fmt.Errorf("count the GPUs: %w", err)
	}
	// A function that an old driver lacks must not be called: the dynamic linker ends the process.
	has := func(symbol string) bool { return n.lib.Extensions().LookupSymbol(symbol) == nil }
	fields, memory2, reasons := has("nvmlDeviceGetFieldValues"), has("nvmlDeviceGetMemoryInfo_v2"), has("nvmlDeviceGetCurrentClocksEventReasons")
	energy := has("nvmlDeviceGetTotalEnergyConsumption")
	var out []gpu
	for i := range count {
		d, ret := n.lib.DeviceGetHandleByIndex(i)
		if err := nvmlError(ret); err != nil {
			return nil, fmt.Errorf("GPU %d: %w", i, err)
		}
		g := &nvidiaGPU{d: d, instant: fields, fields: fields, newEvents: n.lib.EventSetCreate, memory2: memory2, reasons: reasons, energy: energy}
		if g.uuid, ret = d.GetUUID(); ret != nvml.SUCCESS {
			return nil, fmt.Errorf("GPU %d: its UUID: %w", i, nvmlError(ret))
		}
		if g.name, ret = d.GetName(); ret != nvml.SUCCESS {
			g.name = "unknown"
		}
		out = append(out, g)
	}
	return out, nil
}

type nvidiaGPU struct {
	d          nvml.Device
	uuid, name string
	// What the driver has. instant becomes false when the first reading finds that the GPU has it not.
	instant, memory2, reasons, energy bool
	fields                            bool
	decided                           bool

	newEvents func() (nvml.EventSet, nvml.Return)
	events    nvml.EventSet
	noEvents  bool
	xidsSeen  int
	field     [1]nvml.FieldValue // reused: one reading, no garbage
}

func (g *nvidiaGPU) UUID() string { return g.uuid }
func (g *nvidiaGPU) Name() string { return g.name }

func (g *nvidiaGPU) Source(q quantity) string {
	if q != gpuPower {
		return "NVML"
	}
	if _, err := g.power(); err == nil && g.instant {
		return "NVML instant power"
	}
	return "NVML power usage (a one-second average on Ampere and newer, but for GA100)"
}

func (g *nvidiaGPU) Read(q quantity) (float64, error) {
	switch q {
	case gpuPower:
		return g.power()
	case gpuEnergy:
		if !g.energy {
			return 0, errNotSupported
		}
		mj, ret := g.d.GetTotalEnergyConsumption()
		return float64(mj) / 1000, nvmlError(ret)
	case gpuSMClock:
		mhz, ret := g.d.GetClockInfo(nvml.CLOCK_SM)
		return float64(mhz), nvmlError(ret)
	case gpuMemClock:
		mhz, ret := g.d.GetClockInfo(nvml.CLOCK_MEM)
		return float64(mhz), nvmlError(ret)
	case gpuTemp:
		c, ret := g.d.GetTemperature(nvml.TEMPERATURE_GPU)
		return float64(c), nvmlError(ret)
	case gpuMemUsed:
		if g.memory2 { // what is used without what the driver reserves
			m, ret := g.d.GetMemoryInfo_v2()
			return float64(m.Used) / (1 << 20), nvmlError(ret)
		}
		m, ret := g.d.GetMemoryInfo()
		return float64(m.Used) / (1 << 20), nvmlError(ret)
	case gpuUtil:
		u, ret := g.d.GetUtilizationRates()
		return float64(u.Gpu), nvmlError(ret)
	case gpuThrottle:
		if g.reasons {
			r, ret := g.d.GetCurrentClocksEventReasons()
			return float64(r), nvmlError(ret)
		}
		r, ret := g.d.GetCurrentClocksThrottleReasons()
		return float64(r), nvmlError(ret)
	case gpuPowerLimit:
		mw, ret := g.d.GetEnforcedPowerLimit()
		return float64(mw) / 1000, nvmlError(ret)
	case gpuPowerAverage:
		if !g.fields {
			return 0, errNotSupported
		}
		v, err := g.value(nvml.FI_DEV_POWER_AVERAGE)
		return v / 1000, err
	case gpuMemTemp:
		if !g.fields {
			return 0, errNotSupported
		}
		return g.value(nvml.FI_DEV_MEMORY_TEMP)
	case gpuMemTotal:
		m, ret := g.d.GetMemoryInfo()
		return float64(m.Total) / (1 << 20), nvmlError(ret)
	case gpuMemUtil:
		u, ret := g.d.GetUtilizationRates()
		return float64(u.Memory), nvmlError(ret)
	case gpuProcesses:
		ps, err := g.Processes()
		return float64(len(ps)), err
	case gpuEccCorrected:
		n, ret := g.d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC)
		return float64(n), nvmlError(ret)
	case gpuEccUncorrected:
		n, ret := g.d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
		return float64(n), nvmlError(ret)
	case gpuXid:
		return g.xids()
	case gpuPcieRx:
		kib, ret := g.d.GetPcieThroughput(nvml.PCIE_UTIL_RX_BYTES)
		return float64(kib) / 1024, nvmlError(ret)
	case gpuPcieTx:
		kib, ret := g.d.GetPcieThroughput(nvml.PCIE_UTIL_TX_BYTES)
		return float64(kib) / 1024, nvmlError(ret)
	case gpuPcieGen:
		n, ret := g.d.GetCurrPcieLinkGeneration()
		return float64(n), nvmlError(ret)
	case gpuPcieWidth:
		n, ret := g.d.GetCurrPcieLinkWidth()
		return float64(n), nvmlError(ret)
	}
	return 0, errNotSupported
}

// Processes lists those that compute and those that draw, each once.
func (g *nvidiaGPU) Processes() ([]gpuProcess, error) {
	listed, ret := g.d.GetComputeRunningProcesses()
	if err := nvmlError(ret); err != nil {
		return nil, err
	}
	if drawing, ret := g.d.GetGraphicsRunningProcesses(); ret == nvml.SUCCESS {
		listed = append(listed[:len(listed):len(listed)], drawing...)
	}
	var out []gpuProcess
	for _, p := range listed {
		if slices.ContainsFunc(out, func(q gpuProcess) bool { return q.pid == int(p.Pid) }) {
			continue
		}
		mib := float64(p.UsedGpuMemory) / (1 << 20)
		if p.UsedGpuMemory == math.MaxUint64 { // NVML_VALUE_NOT_AVAILABLE
			mib = math.NaN()
		}
		out = append(out, gpuProcess{int(p.Pid), mib})
	}
	return out, nil
}

// xids counts the driver's critical errors since the source was opened, without waiting for one.
func (g *nvidiaGPU) xids() (float64, error) {
	if g.events == nil {
		if g.noEvents || g.newEvents == nil {
			return 0, errNotSupported
		}
		set, ret := g.newEvents()
		if ret == nvml.SUCCESS {
			ret = g.d.RegisterEvents(nvml.EventTypeXidCriticalError, set)
		}
		if ret != nvml.SUCCESS {
			g.noEvents = true
			return 0, errNotSupported
		}
		g.events = set
	}
	for range 16 {
		_, ret := g.events.Wait(0)
		if ret == nvml.ERROR_TIMEOUT {
			break
		}
		if err := nvmlError(ret); err != nil {
			return 0, err
		}
		g.xidsSeen++
	}
	return float64(g.xidsSeen), nil
}

// value reads one field in the unit that the library keeps it in.
func (g *nvidiaGPU) value(id uint32) (float64, error) {
	g.field[0] = nvml.FieldValue{FieldId: id}
	if ret := g.d.GetFieldValues(g.field[:]); ret != nvml.SUCCESS {
		return 0, nvmlError(ret)
	}
	if ret := nvml.Return(g.field[0].NvmlReturn); ret != nvml.SUCCESS {
		return 0, nvmlError(ret)
	}
	v, ok := fieldNumber(&g.field[0])
	if !ok {
		return 0, errNotSupported
	}
	return v, nil
}

// power prefers the instant value: the plain call averages over a second on most GPUs, which smears the
// edges of a window. Which of the two it is, the first reading decides for good: a sensor does not change
// its meaning from sample to sample, so a later failure is a failure.
func (g *nvidiaGPU) power() (float64, error) {
	if g.instant {
		w, err := g.instantPower()
		if err == nil || g.decided {
			g.decided = true
			return w, err
		}
		g.instant = false
	}
	g.decided = true
	mw, ret := g.d.GetPowerUsage()
	return float64(mw) / 1000, nvmlError(ret)
}

func (g *nvidiaGPU) instantPower() (float64, error) {
	mw, err := g.value(nvml.FI_DEV_POWER_INSTANT)
	return mw / 1000, err
}

// fieldNumber reads the eight bytes of a field's value, which are a C union in the machine's byte order.
func fieldNumber(f *nvml.FieldValue) (float64, bool) {
	raw := binary.NativeEndian.Uint64(f.Value[:])
	switch nvml.ValueType(f.ValueType) {
	case nvml.VALUE_TYPE_DOUBLE:
		v := math.Float64frombits(raw)
		return v, finite(v) && v >= 0
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		return float64(binary.NativeEndian.Uint32(f.Value[:4])), true
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG:
		return float64(raw), true
	}
	return 0, false
}

// nvmlError puts a return code into words. It does not ask the library for them: after a failed Init that
// call ends the process.
func nvmlError(ret nvml.Return) error {
	switch ret {
	case nvml.SUCCESS:
		return nil
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND:
		return errNotSupported
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return errNoLibrary
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return errNoDriver
	case nvml.ERROR_NO_PERMISSION:
		return fmt.Errorf("no permission (NVML error %d)", ret)
	case nvml.ERROR_GPU_IS_LOST:
		return fmt.Errorf("the GPU has fallen off the bus (NVML error %d)", ret)
	case nvml.ERROR_TIMEOUT:
		return fmt.Errorf("the driver timed out (NVML error %d)", ret)
	case nvml.ERROR_UNINITIALIZED:
		return fmt.Errorf("NVML is not open (NVML error %d)", ret)
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return fmt.Errorf("driver and library have different versions: reboot, or reload the driver (NVML error %d)", ret)
	}
	return fmt.Errorf("NVML error %d", ret)
}

var (
	_ gpuLibrary = (*nvidia)(nil)
	_ gpu        = (*nvidiaGPU)(nil)
)
