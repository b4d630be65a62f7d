package cluster_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A standalone stream of a client that cannot poll ends with the drain, as it does where its session is. Else it would keep the http.Server from its end.
func TestAForwardedStandaloneStreamEndsWithADrain(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *process){
		"Drain": func(t *testing.T, p *process) { <-kit.Drain(t, p.Server, time.Minute) },
		"Close": func(_ *testing.T, p *process) { p.Close() },
	} {
		for n, where := range []string{"at its owner", "at another process"} {
			t.Run(name+" "+where, func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					w := newWorld(t, options{version: kit.Legacy})
					p := w.use(n)
					listen := w.Listen()
					synctest.Wait()
					require.Equal(t, 1, listen.Open())
					end(t, p)
					elapse(time.Second)
					require.Equal(t, 0, listen.Open(), kit.Last(listen))
				})
			})
		}
	}
}
