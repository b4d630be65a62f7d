//go:build !redis

package subject

import "testing"

// engineAddr is nil: without the build tag redis, subjects that need an engine are not tested.
var engineAddr func(t *testing.T) string
