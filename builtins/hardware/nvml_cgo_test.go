//go:build linux && cgo

package hardware

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
)

// TestDiscovery finds the eight GPUs of the published mock of a DGX A100.
func TestDiscovery(t *testing.T) {
	lib := &nvidia{lib: dgxa100.New()}
	if err := lib.Open(); err != nil {
		t.Fatal(err)
	}
	gpus, err := lib.GPUs()
	if err != nil || len(gpus) != 8 {
		t.Fatalf("got %d GPUs, %v, want 8", len(gpus), err)
	}
	uuids := map[string]bool{}
	for _, g := range gpus {
		uuids[g.UUID()] = true
		if g.Name() != "Mock NVIDIA A100-SXM4-40GB" {
			t.Errorf("got %q", g.Name())
		}
	}
	if len(uuids) != 8 {
		t.Errorf("got %d different UUIDs, want 8", len(uuids))
	}
	if d, err := lib.Driver(); err != nil || d != "550.54.15" {
		t.Errorf("driver: got %q, %v", d, err)
	}
	if err := lib.Close(); err != nil {
		t.Error(err)
	}
}

// device is a mock with the calls that the published mocks leave unset.
func device() *mock.Device {
	return &mock.Device{
		GetPowerUsageFunc:                   func() (uint32, nvml.Return) { return 251500, nvml.SUCCESS },
		GetTotalEnergyConsumptionFunc:       func() (uint64, nvml.Return) { return 9007199254741, nvml.SUCCESS },
		GetClockInfoFunc:                    func(c nvml.ClockType) (uint32, nvml.Return) { return 1000 + uint32(c), nvml.SUCCESS },
		GetTemperatureFunc:                  func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 61, nvml.SUCCESS },
		GetMemoryInfoFunc:                   func() (nvml.Memory, nvml.Return) { return nvml.Memory{Used: 3 << 30}, nvml.SUCCESS },
		GetMemoryInfo_v2Func:                func() (nvml.Memory_v2, nvml.Return) { return nvml.Memory_v2{Used: 2 << 30}, nvml.SUCCESS },
		GetUtilizationRatesFunc:             func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 97}, nvml.SUCCESS },
		GetCurrentClocksEventReasonsFunc:    func() (uint64, nvml.Return) { return 4, nvml.SUCCESS },
		GetCurrentClocksThrottleReasonsFunc: func() (uint64, nvml.Return) { return 8, nvml.SUCCESS },
		GetEnforcedPowerLimitFunc:           func() (uint32, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED },
	}
}

func field(typ nvml.ValueType, mw uint64, ret nvml.Return) func([]nvml.FieldValue) nvml.Return {
	return func(v []nvml.FieldValue) nvml.Return {
		if v[0].FieldId != nvml.FI_DEV_POWER_INSTANT {
			return nvml.ERROR_INVALID_ARGUMENT
		}
		v[0].ValueType, v[0].NvmlReturn = uint32(typ), uint32(ret)
		binary.NativeEndian.PutUint64(v[0].Value[:], mw)
		return nvml.SUCCESS
	}
}

func TestUnits(t *testing.T) {
	d := device()
	d.GetFieldValuesFunc = field(nvml.VALUE_TYPE_UNSIGNED_INT, 248250, nvml.SUCCESS)
	g := &nvidiaGPU{d: d, instant: true, memory2: true, reasons: true, energy: true}
	old := &nvidiaGPU{d: d}
	for _, c := range []struct {
		g    *nvidiaGPU
		q    quantity
		want float64
		err  error
	}{
		{g, gpuPower, 248.25, nil}, {old, gpuPower, 251.5, nil},
		{g, gpuEnergy, 9007199254.741, nil}, {old, gpuEnergy, 0, errNotSupported},
		{g, gpuSMClock, 1001, nil}, {g, gpuMemClock, 1002, nil}, {g, gpuTemp, 61, nil},
		{g, gpuMemUsed, 2048, nil}, {old, gpuMemUsed, 3072, nil},
		{g, gpuUtil, 97, nil}, {g, gpuThrottle, 4, nil}, {old, gpuThrottle, 8, nil},
		{g, gpuPowerLimit, 0, errNotSupported},
	} {
		if v, err := c.g.Read(c.q); v != c.want && err == nil || !errors.Is(err, c.err) {
			t.Errorf("quantity %d: got %v, %v, want %v, %v", c.q, v, err, c.want, c.err)
		}
	}
}

// TestPowerKeepsItsMeaning: where the instant value is there at first, a later failure is a failure and
// not a one-second average; where it is not there at first, the average stays.
func TestPowerKeepsItsMeaning(t *testing.T) {
	d := device()
	d.GetFieldValuesFunc = field(nvml.VALUE_TYPE_UNSIGNED_INT, 100000, nvml.SUCCESS)
	g := &nvidiaGPU{d: d, instant: true}
	if s := g.Source(gpuPower); s != "NVML instant power" {
		t.Errorf("got %q", s)
	}
	d.GetFieldValuesFunc = field(nvml.VALUE_TYPE_UNSIGNED_INT, 0, nvml.ERROR_GPU_IS_LOST)
	if v, err := g.Read(gpuPower); err == nil {
		t.Errorf("got %v W, want an error", v)
	}
	for _, f := range []func([]nvml.FieldValue) nvml.Return{
		field(nvml.VALUE_TYPE_UNSIGNED_INT, 0, nvml.ERROR_NOT_SUPPORTED),
		field(nvml.VALUE_TYPE_SIGNED_INT, 5, nvml.SUCCESS), // a type that power never has
		func([]nvml.FieldValue) nvml.Return { return nvml.ERROR_FUNCTION_NOT_FOUND },
	} {
		d := device()
		d.GetFieldValuesFunc = f
		g := &nvidiaGPU{d: d, instant: true}
		if v, err := g.Read(gpuPower); err != nil || v != 251.5 {
			t.Errorf("got %v, %v, want the average", v, err)
		}
		d.GetFieldValuesFunc = field(nvml.VALUE_TYPE_UNSIGNED_INT, 100000, nvml.SUCCESS)
		if v, err := g.Read(gpuPower); err != nil || v != 251.5 {
			t.Errorf("got %v, %v, want the average still", v, err)
		}
	}
}

// TestFurtherUnits: fields by number, processes that both compute and draw counted once, errors since the
// boot, the bus, and events that are taken without waiting.
func TestFurtherUnits(t *testing.T) {
	d := device()
	fields := map[uint32]uint64{nvml.FI_DEV_POWER_AVERAGE: 90500, nvml.FI_DEV_MEMORY_TEMP: 71}
	d.GetFieldValuesFunc = func(v []nvml.FieldValue) nvml.Return {
		x, ok := fields[v[0].FieldId]
		if !ok {
			v[0].NvmlReturn = uint32(nvml.ERROR_NOT_SUPPORTED)
			return nvml.SUCCESS
		}
		v[0].ValueType, v[0].NvmlReturn = uint32(nvml.VALUE_TYPE_UNSIGNED_INT), uint32(nvml.SUCCESS)
		binary.NativeEndian.PutUint64(v[0].Value[:], x)
		return nvml.SUCCESS
	}
	d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 16 << 30}, nvml.SUCCESS }
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 97, Memory: 41}, nvml.SUCCESS }
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 1}, {Pid: 2}}, nvml.SUCCESS
	}
	d.GetGraphicsRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 2}, {Pid: 3}}, nvml.SUCCESS
	}
	d.GetTotalEccErrorsFunc = func(k nvml.MemoryErrorType, c nvml.EccCounterType) (uint64, nvml.Return) {
		if c != nvml.VOLATILE_ECC {
			t.Errorf("asked for counter %v", c)
		}
		return map[nvml.MemoryErrorType]uint64{nvml.MEMORY_ERROR_TYPE_CORRECTED: 7, nvml.MEMORY_ERROR_TYPE_UNCORRECTED: 1}[k], nvml.SUCCESS
	}
	d.GetPcieThroughputFunc = func(c nvml.PcieUtilCounter) (uint32, nvml.Return) {
		return map[nvml.PcieUtilCounter]uint32{nvml.PCIE_UTIL_RX_BYTES: 2048, nvml.PCIE_UTIL_TX_BYTES: 512}[c], nvml.SUCCESS
	}
	d.GetCurrPcieLinkGenerationFunc = func() (int, nvml.Return) { return 4, nvml.SUCCESS }
	d.GetCurrPcieLinkWidthFunc = func() (int, nvml.Return) { return 16, nvml.SUCCESS }
	pending := 0
	d.RegisterEventsFunc = func(what uint64, _ nvml.EventSet) nvml.Return {
		if what != nvml.EventTypeXidCriticalError {
			t.Errorf("registered for %d", what)
		}
		return nvml.SUCCESS
	}
	set := &mock.EventSet{WaitFunc: func(ms uint32) (nvml.EventData, nvml.Return) {
		if ms != 0 {
			t.Errorf("waits %d ms", ms)
		}
		if pending == 0 {
			return nvml.EventData{}, nvml.ERROR_TIMEOUT
		}
		pending--
		return nvml.EventData{}, nvml.SUCCESS
	}}
	g := &nvidiaGPU{d: d, fields: true, newEvents: func() (nvml.EventSet, nvml.Return) { return set, nvml.SUCCESS }}
	for _, c := range []struct {
		q    quantity
		want float64
	}{
		{gpuPowerAverage, 90.5}, {gpuMemTemp, 71}, {gpuMemTotal, 16384}, {gpuMemUtil, 41}, {gpuProcesses, 3}, {gpuEccCorrected, 7}, {gpuEccUncorrected, 1},
		{gpuPcieRx, 2}, {gpuPcieTx, .5}, {gpuPcieGen, 4}, {gpuPcieWidth, 16}, {gpuXid, 0},
	} {
		if v, err := g.Read(c.q); v != c.want || err != nil {
			t.Errorf("quantity %d: got %v, %v, want %v", c.q, v, err, c.want)
		}
	}
	pending = 2
	for range 2 { // they are counted once
		if v, err := g.Read(gpuXid); v != 2 || err != nil {
			t.Errorf("events: got %v, %v, want 2", v, err)
		}
	}
	old := &nvidiaGPU{d: d} // a driver without fields and events
	for _, q := range []quantity{gpuPowerAverage, gpuMemTemp, gpuXid} {
		if _, err := old.Read(q); !errors.Is(err, errNotSupported) {
			t.Errorf("quantity %d of an old driver: %v", q, err)
		}
	}
	fields = nil
	if _, err := g.Read(gpuMemTemp); !errors.Is(err, errNotSupported) {
		t.Errorf("no memory sensor: %v", err)
	}
}

// TestProcesses: those that compute and those that draw, each once; a memory that the driver does not tell is
// not 16 million TiB.
func TestProcesses(t *testing.T) {
	d := device()
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 7, UsedGpuMemory: 512 << 20}, {Pid: 9, UsedGpuMemory: math.MaxUint64}}, nvml.SUCCESS
	}
	d.GetGraphicsRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 7, UsedGpuMemory: 512 << 20}, {Pid: 11, UsedGpuMemory: 1 << 20}}, nvml.SUCCESS
	}
	g := &nvidiaGPU{d: d}
	got, err := g.Processes()
	if err != nil || len(got) != 3 || got[0] != (gpuProcess{7, 512}) || got[1].pid != 9 || !math.IsNaN(got[1].mib) || got[2] != (gpuProcess{11, 1}) {
		t.Errorf("got %v, %v", got, err)
	}
	if n, err := g.Read(gpuProcesses); err != nil || n != 3 {
		t.Errorf("counted %v, %v", n, err)
	}
	d.GetGraphicsRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED }
	if got, err := g.Processes(); err != nil || len(got) != 2 {
		t.Errorf("without those that draw: %v, %v", got, err)
	}
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NO_PERMISSION }
	if _, err := g.Processes(); err == nil {
		t.Error("a refusal was taken for an empty list")
	}
}
