//go:build !race

package torture_test

import "testing"

// oneAtATime has an effect only with the race detector.
func oneAtATime(*testing.T) {}
