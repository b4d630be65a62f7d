package scenario

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin/bench/internal/load"
)

// paced calls do once in every period for each of n units, until d is over, over several connections. The times of the units are spread evenly over
// the period. It returns by how many milliseconds each call began too late, sorted, and how long all took.
func (t target) paced(
	ctx context.Context, n, conns int, every, d time.Duration, do func(c *load.Conn, i int) error,
) (late []float64, took time.Duration, err error) {
	var mu sync.Mutex
	began := time.Now()
	err = t.each(ctx, conns, conns, func(c *load.Conn, w int) error {
		var own []float64
		units := (n - w + conns - 1) / conns // this worker's: w, w+conns, …
		for k := 0; units > 0; k++ {
			i := w + k%units*conns
			at := time.Duration(k/units)*every + every*time.Duration(i)/time.Duration(n)
			if at >= d {
				break
			}
			if err := sleepUntil(ctx, began.Add(at)); err != nil {
				return err
			}
			own = append(own, time.Since(began.Add(at)).Seconds()*1e3)
			if err := do(c, i); err != nil {
				return err
			}
		}
		mu.Lock()
		defer mu.Unlock()
		late = append(late, own...)
		return nil
	})
	slices.Sort(late)
	return late, time.Since(began), err
}

func sleepUntil(ctx context.Context, at time.Time) error {
	d := time.Until(at)
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
