//go:build !linux || !cgo

package hardware

// newGPULibrary is a library that is not there: go-nvml compiles only on Linux with cgo.
func newGPULibrary() gpuLibrary { return noGPULibrary{} }

type noGPULibrary struct{}

func (noGPULibrary) Open() error             { return errNoCgo }
func (noGPULibrary) Driver() (string, error) { return "", errNoCgo }
func (noGPULibrary) GPUs() ([]gpu, error)    { return nil, errNoCgo }
func (noGPULibrary) Close() error            { return nil }
