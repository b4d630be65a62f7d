//go:build !race

package cluster_test

import "testing"

// oneAtATime has an effect only with the race detector.
func oneAtATime(*testing.T) {}
