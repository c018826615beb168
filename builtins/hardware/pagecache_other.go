//go:build !linux

package hardware

type residence struct{}

func openResidence(string) (*residence, error) { return nil, errNoMincore }

func (r *residence) resident() (float64, error) { return 0, errNoMincore }
func (r *residence) close() error               { return nil }

func deviceOf(string) (major, minor uint32, err error) { return 0, 0, errNoMincore }
