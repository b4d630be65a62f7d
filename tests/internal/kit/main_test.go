package kit

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { Main(m) }

// The check of Main can fail.
func TestGoroutinesThatAreLeftAreFound(t *testing.T) {
	stop := make(chan struct{})
	go func() { <-stop }()
	left := leftAfter(0)
	require.Condition(t, func() bool {
		for _, stack := range left {
			if strings.Contains(stack, "TestGoroutinesThatAreLeftAreFound.func") {
				return true
			}
		}
		return false
	}, left)
	close(stop)
}
