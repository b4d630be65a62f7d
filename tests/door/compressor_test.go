package door_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// noting counts the flushes of a response.
type noting struct {
	http.ResponseWriter
	flushes int
}

func (n *noting) Flush() { n.flushes++ }

// An empty answer is not flushed, and neither is a refusal: through a compressor echo's would send the beginning of a compressed body without an
// end, and gin-contrib's the beginning of one after the plain error. Everything else is flushed, also through compressors.
func TestWhatIsNotFlushedThroughACompressor(t *testing.T) {
	for _, head := range []http.Header{{}, {"Content-Encoding": {"gzip"}}, {"Vary": {"Origin, accept-Encoding"}}, {"Vary": {"Origin"}}} {
		plain := head.Get("Content-Encoding") == "" && head.Get("Vary") != "Origin, accept-Encoding"
		kit.Bubble(t, func(t *testing.T) {
			s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{})
			id, _ := kit.Open(t, s)
			flushes := func(r *http.Request) int {
				w := &noting{ResponseWriter: &discarding{head.Clone()}}
				s.Serve(w, r)
				return w.flushes
			}
			require.Equal(t, 1, flushes(kit.InSession(t, id, kit.Ping)), "an answer")
			for what, r := range map[string]*http.Request{
				"202": kit.InSession(t, id, `{"jsonrpc":"2.0","method":"notifications/x"}`), "400": kit.InSession(t, id, `{`),
			} {
				want := 0
				if plain {
					want = 1
				}
				require.Equal(t, want, flushes(r), "%s with %v", what, head)
			}
		})
	}
}

// discarding is a writer that drops everything.
type discarding struct{ header http.Header }

func (d *discarding) Header() http.Header         { return d.header }
func (d *discarding) WriteHeader(int)             {}
func (d *discarding) Write(p []byte) (int, error) { return len(p), nil }
