package torture_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rejoin-mcp/rejoin"
)

// tally counts what has happened in histories. Its zero value is ready.
type tally struct {
	mu    sync.Mutex
	times map[string]int
}

// enough is how many histories have all of it.
const enough = 300

// wanted must happen.
var wanted = []string{
	"killed", "link refused", "link silent", "link deaf", "forgotten", "failed over", "stalled", "stalled for long", "clock ahead", "clock behind",
	"network: refused", "network: unreachable", "network: cut off from others", "network: alone", "network: reset",
	"store: failed", "store: answer lost", "store: delayed", "store: answer delayed", "store: late",
	"directory: failed", "directory: answer lost", "directory: delayed", "directory: answer delayed", "directory: late",
	"drained", "drain succeeded", "drain took too long", "released", "adopted, released", "handed on", "left",
	"adopted, owner lost", "adoption lost", "adoption made again", "owner fenced", "moved", "regained", "engine behind", "log restored", "event written again",
	"forwarded", "misdirected", "held", "owner lost", "unreachable", "refused while away",
}

func (c *tally) did(what string) { c.more(what, 1) }

func (c *tally) more(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.times == nil {
		c.times = map[string]int{}
	}
	c.times[what] += n
}

// count adds what a process has counted.
func (c *tally) count(s rejoin.Stats) {
	for what, n := range map[string]int64{
		"moved": s.Moved, "forwarded": s.Forwarded, "misdirected": s.Misdirected, "held": s.Held, "owner lost": s.OwnerLost, "unreachable": s.Unreachable,
		"refused while away": s.Away,
	} {
		c.more(what, int(n))
	}
}

// add adds what another tally has.
func (c *tally) add(other *tally) {
	other.mu.Lock()
	defer other.mu.Unlock()
	for what, n := range other.times {
		c.more(what, n)
	}
}

// missing are those of wanted that have not happened.
func (c *tally) missing() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(wanted), func(what string) bool { return c.times[what] > 0 })
}

func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(c.times)) {
		fmt.Fprintf(&b, "%s: %d\n", what, c.times[what])
	}
	return b.String()
}
