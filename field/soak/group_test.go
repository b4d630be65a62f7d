package main

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Goroutines may be added at any time, also while Wait waits. Each Wait returns when no goroutine is left.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g group
		g.Wait()
		var ended, waited atomic.Int32
		goOn := make(chan struct{})
		g.Go(func() { <-goOn; ended.Add(1) })
		for range 2 {
			go func() { g.Wait(); waited.Add(1) }()
		}
		synctest.Wait()
		g.Go(func() { <-goOn; g.Go(func() { ended.Add(1) }) })
		goOn <- struct{}{}
		synctest.Wait()
		if ended.Load() != 1 || waited.Load() != 0 {
			t.Fatalf("%d have ended, and %d waits", ended.Load(), waited.Load())
		}
		goOn <- struct{}{}
		synctest.Wait()
		if ended.Load() != 2 || waited.Load() != 2 {
			t.Fatalf("%d have ended, and %d waits", ended.Load(), waited.Load())
		}
	})
}
