package core

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where the store is short of room for what a client has read, the client is let go to acknowledge it; one that cannot be has nothing to
// acknowledge with, and the store is told instead.
func TestPress(t *testing.T) {
	const (
		read = "post A c1 id=1; emit A; emit A; written c1 A.1"
		away = "end c1 A.2 retry=1ms"
	)
	for _, c := range []struct{ name, before, press, want string }{
		{"a client that polls", read, "press A c1", away},
		{"whoever reads", read, "press A", away},
		{"one that was taken over", read + "; get c2 A.1", "press A c1", "nothing"},
		{"one that has been written nothing since it came", read + "; get c2 A.1", "press A c2", "nothing"},
		{"one that has been written more since", read + "; get c2 A.1; written c2 A.2", "press A c2", "end c2 A.2 retry=1ms"},
		{"one that has been written nothing", "post A c1 id=1; emit A", "press A c1", "nothing"},
		{"a plain answer", "post A c1 id=1", "press A c1", "nothing"},
		{"one that is away", read + "; close A", "press A c1", "nothing"},
		{"one whose connection broke", read + "; gone c1 A", "press A", "nothing"},
		{"a call that has ended", read + "; reply A 1", "press A c1", "nothing"},
		{"the standalone stream", "get c1; emit; written c1 S.1", "press S c1", "nothing"},
		{"a stream that was dropped", read + "; cancel 1; gone c1 A", "press A c1", "nothing"},
		{"a client that does not", "open 2025-06-18; " + read, "press A c1", "yield A.1"},
		{"one that has not come back before", read + "; close A; 20s tick; get c2 A.0; emit A; written c2 A.2; 21s tick", "press A c2", "end c2 A.3 retry=1ms"},
		{"one that does not, and has come back", "open 2025-06-18; " + read + "; gone c1 A; get c2 A.1; emit A; written c2 A.3", "press A c2", "yield A.3"},
		{"without a store", read + "; lost A.2", "press A c1", "yield A.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			s.all("0s open 2025-11-25")
			for line := range strings.SplitSeq(c.before, "; ") {
				s.all(line)
			}
			require.Equal(t, c.want, s.all(c.press))
		})
	}
}
