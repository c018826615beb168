package machine

// Page-cache policy: a new process does not make a cold file. Both need no right but to read the file.

import (
	"context"
	"io"
	"runtime"
	"sync"

	"flow/workflows/plan"
)

// PageCache puts files into the state that an arm is to find: warm reads them through, cold makes the kernel
// forget them. Anything else leaves them.
func PageCache(ctx context.Context, policy string, files []string) error {
	if policy != plan.CacheWarm && policy != plan.CacheCold {
		return nil
	}
	for _, path := range files {
		f, err := OpenRegular(path)
		if err != nil {
			return err
		}
		if policy == plan.CacheCold {
			err = f.Sync() // on a read-only descriptor too: dirty pages cannot be dropped
			if err == nil {
				err = dropFile(f)
			}
		} else {
			_, err = io.Copy(io.Discard, &cancelled{ctx, f})
		}
		_ = f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// cancelled is a reader that ends with ctx.
type cancelled struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancelled) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// Burn keeps n CPUs busy (all that this process may use when 0) until ctx ends.
func Burn(ctx context.Context, n int) {
	if n <= 0 {
		n = runtime.NumCPU()
	}
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			x := 1.0
			for ctx.Err() == nil {
				for range 100_000 {
					x = x*1.0000001 + 1e-9
				}
			}
			burnt(x)
		})
	}
	wg.Wait()
}

// burnt keeps the loop from being optimised away.
//
//go:noinline
func burnt(float64) {}
