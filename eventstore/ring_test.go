package eventstore

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRingIsAQueue(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var r ring
	var want []string
	next := 0
	for step := range 8_000 {
		// It grows in some stretches and drains in others.
		if grow := 3 + 4*(step/2000%2); len(want) == 0 || rnd.IntN(10) < grow {
			data := fmt.Sprint(next)
			next++
			want = append(want, data)
			r.push([]byte(data))
		} else {
			require.Equal(t, want[0], string(r.shift()))
			want = want[1:]
		}
		require.Equal(t, len(want), r.n)
		for _, i := range []int{0, len(want) / 2, len(want) - 1} {
			if len(want) > 0 {
				require.Equal(t, want[i], string(r.at(i)))
			}
		}
		if r.more != nil {
			require.LessOrEqual(t, len(r.more.buf), 2*r.n+8, "a drained ring gives its room back")
		}
	}
	r.reset()
	require.Equal(t, ring{}, r)
	r.push([]byte("again"))
	require.Equal(t, "again", string(r.at(0)))
}

func TestRingLetsGoOfWhatItGaveOut(t *testing.T) {
	for name, more := range map[string]int{"the only one": 0, "one of two": 1, "one of many": 20} {
		t.Run(name, func(t *testing.T) { ringLetsGo(t, more) })
	}
}

func ringLetsGo(t *testing.T, more int) {
	var r ring
	for i := range 3 {
		r.push(fmt.Append(nil, "keeps the ring alive", i))
	}
	collected := make(chan struct{})
	func() {
		data := make([]byte, 1<<20)
		runtime.AddCleanup(&data[0], func(int) { close(collected) }, 0)
		r.reset()
		r.push(data)
		for i := range more {
			r.push(fmt.Append(nil, "another", i))
		}
		r.shift()
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		select {
		case <-collected:
			return true
		default:
			return false
		}
	}, patience, tick, "an event that was evicted is still in memory")
	runtime.KeepAlive(&r)
}
