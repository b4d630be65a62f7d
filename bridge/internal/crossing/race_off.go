//go:build !race

package crossing

import "testing"

// oneAtATime has an effect only with the race detector.
func oneAtATime(*testing.T) {}
