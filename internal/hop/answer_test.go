package hop

import (
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The length of an answer is only a claim.
func TestALengthThatIsNotTrue(t *testing.T) {
	for _, length := range []int64{math.MaxInt64, math.MaxInt64 - 1, 1 << 40, 1 << 30} {
		a := answerOf(t, io.NopCloser(strings.NewReader("{}")))
		a.res.ContentLength = length
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := a.Whole()
		require.Error(t, err)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
	}
}
