package door_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// padded is a ping of n bytes.
func padded(n int) string { return kit.Ping + strings.Repeat(" ", n-len(kit.Ping)) }

// MaxBodyBytes counts the bytes that are read, with and without a Content-Length. A body whose Content-Length is over the limit is not read to
// its end either.
func TestTheLimitOfABody(t *testing.T) {
	const limit = 4096
	kit.Bubble(t, func(t *testing.T) {
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{MaxBodyBytes: limit})
		id, _ := kit.Open(t, s)
		for _, size := range []int{limit - 1, limit, limit + 1, 2 * limit, 100 * limit} {
			want := "200 result ended"
			if size > limit {
				want = `413 error(-32600,"mine") ended`
			}
			for _, length := range []int64{int64(size), -1} {
				for name, through := range map[string]func(io.Reader) io.Reader{
					"at once":                func(r io.Reader) io.Reader { return r },
					"in bytes":               iotest.OneByteReader,
					"the end with the bytes": iotest.DataErrReader,
				} {
					r := kit.InSession(t, id, kit.Ping)
					var read int
					r.Body = io.NopCloser(counted(through(strings.NewReader(padded(size))), &read))
					r.ContentLength = length
					require.Equal(t, want, kit.Serve(s, r).Summary(), "%d bytes, length %d, %s", size, length, name)
					require.LessOrEqual(t, read, limit+1, name)
				}
			}
		}
		require.EqualValues(t, 18, s.Stats().Refused)
	})
}

// counted counts the bytes that are read from r.
func counted(r io.Reader, n *int) io.Reader {
	return kit.ReaderFunc(func(p []byte) (int, error) {
		k, err := r.Read(p)
		*n += k
		return k, err
	})
}

// Without a limit a body may have any size, and memory is not allocated by its Content-Length.
func TestNoLimitOfABody(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{MaxBodyBytes: -1})
		id, _ := kit.Open(t, s)
		for _, length := range []int64{6 << 20, -1, 1 << 50} {
			r := kit.InSession(t, id, padded(6<<20))
			r.ContentLength = length
			require.Equal(t, "200 result ended", kit.Serve(s, r).Summary())
		}
	})
}

// The Content-Length may be wrong. A middleware that decodes bodies may leave the Content-Length and the Content-Encoding of the encoded body, as
// echo's does. The limit applies to the bytes that are read.
func TestALengthThatIsNotTheBodys(t *testing.T) {
	const limit = 4096
	kit.Bubble(t, func(t *testing.T) {
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{MaxBodyBytes: limit})
		id, _ := kit.Open(t, s)
		for _, length := range []int64{0, 1, int64(len(kit.Ping)), limit - 1, limit, limit + 1, 1 << 60} {
			for size, want := range map[int]string{
				len(kit.Ping): "200 result ended", 2000: "200 result ended", limit: "200 result ended", limit + 1: `413 error(-32600,"mine") ended`,
			} {
				r := kit.InSession(t, id, padded(size), "Content-Encoding", "gzip")
				r.ContentLength = length
				require.Equal(t, want, kit.Serve(s, r).Summary(), "%d bytes, said to be %d", size, length)
			}
		}
	})
}

// The refusal of an encoded body names the encoding. It does not complain about the JSON.
func TestAnEncodedBody(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, kit.Ping)
	require.NoError(t, z.Close())
	kit.Bubble(t, func(t *testing.T) {
		c := rejointest.New(t, &kit.Fake{}, rejointest.Config{})
		for _, coding := range []string{"gzip", "GZIP", "br", "identity, gzip", "zstd"} {
			body, res := kit.Post(t, c, zipped.String(), "Content-Encoding", coding)
			require.Equal(t, "415 error(-32600,null)", kit.Refusal(t, body, res), coding)
			require.Contains(t, body, "Content-Encoding")
		}
		body, res := kit.Post(t, c, zipped.String())
		require.Equal(t, "400 error(-32700,null)", kit.Refusal(t, body, res), "who says nothing has sent bad JSON")
		body, res = kit.Post(t, c, kit.Ping[1:], "Content-Encoding", "identity")
		require.Equal(t, "400 error(-32700,null)", kit.Refusal(t, body, res))
		body, res = kit.Post(t, c, kit.Ping, "Content-Encoding", "Identity")
		require.Equal(t, "200 result", fmt.Sprintf("%d %s", res.StatusCode, kit.MessageSummary(body)))
	})
}

// A body is cut anywhere, by the limit or because its client stops. The refusal has the request's id or none, never a part of the id.
func TestTheIDOfAPartOfABody(t *testing.T) {
	for id, bodies := range map[string][]string{
		"12345": {`{"jsonrpc":"2.0","id":12345,"method":"ping","params":{}}`, `{"id" : 12345 , "jsonrpc":"2.0","method":"ping"}`, `{"jsonrpc":"2.0","method":"ping","id":12345}`},
		`"a b"`: {`{"jsonrpc":"2.0","id":"a b","method":"ping","params":{"x":{"id":7}}}`, `{"params":{"id":7,"x":[{"id":8}]},"id":"a b","method":"ping","jsonrpc":"2.0"}`},
	} {
		for _, body := range bodies {
			kit.Bubble(t, func(t *testing.T) {
				for cut := 1; cut < len(body); cut++ {
					want := "null"
					known := strings.Index(body, id) + len(id)
					if known < cut || known == cut && id[0] == '"' {
						want = id
					}
					limited := kit.NewServer(t, &kit.Fake{}, rejoin.Config{MaxBodyBytes: int64(cut)})
					s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{})
					for _, length := range []int64{int64(len(body)), -1} {
						r := kit.Request(t, http.MethodPost, body)
						r.ContentLength = length
						require.Equal(t, "413 error(-32600,"+want+") ended", kit.Serve(limited, r).Summary(), body[:cut])

						r = kit.Request(t, http.MethodPost, body)
						r.Body = io.NopCloser(io.MultiReader(strings.NewReader(body[:cut]), iotest.ErrReader(errors.New("gone"))))
						r.ContentLength = length
						require.Equal(t, "400 error(-32600,"+want+") ended", kit.Serve(s, r).Summary(), body[:cut])
					}
				}
			})
		}
	}
}

// A client that stops in the middle of a body gets an error when the http.Server's ReadTimeout is over, and leaves nothing.
func TestAClientThatStopsInTheMiddleOfABody(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		opened := 0
		app := &kit.Fake{OnOpen: func(*http.Request, *rejoin.Session) (rejoin.AppSession, error) {
			opened++
			return &kit.Fake{}, nil
		}}
		c := rejointest.New(t, app, rejointest.Config{HTTP: func(hs *http.Server) { hs.ReadTimeout = time.Minute }})
		before, resting := c.Server().Stats(), len(kit.Goroutines())
		for _, header := range [][]string{nil, {"Mcp-Session-Id", ""}} {
			for _, body := range []string{kit.Ping, kit.Initialize} {
				body += strings.Repeat(" ", 10_000) // more than the client buffers before it sends
				for _, length := range []int64{int64(len(body)), -1} {
					req := kit.Request(t, http.MethodPost, body, header...)
					req.ContentLength = length
					req.Body = io.NopCloser(io.MultiReader(strings.NewReader(body[:len(body)-1]), kit.ReaderFunc(func([]byte) (int, error) {
						kit.Elapse(2 * time.Minute) // more than ReadTimeout
						return 0, io.ErrClosedPipe
					})))
					text, res := kit.ReadAll(t, c.Do(req))
					require.Equal(t, `400 error(-32600,"mine")`, kit.Refusal(t, text, res))
				}
			}
		}
		c.Start("ping", nil).Result() // the session still works
		kit.Elapse(time.Second)
		after := c.Server().Stats()
		require.EqualValues(t, 8, after.Refused)
		after.Refused = 0
		require.Equal(t, before, after)
		require.Equal(t, 1, opened)
		require.LessOrEqual(t, len(kit.Goroutines()), resting, strings.Join(kit.Goroutines(), "\n\n"))
	})
}

// A body may come slowly, as long as the http.Server allows.
func TestABodyThatDrips(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := rejointest.New(t, &kit.Fake{}, rejointest.Config{})
		for _, length := range []int64{int64(len(kit.Ping)), -1} {
			left := strings.NewReader(kit.Ping)
			req := kit.Request(t, http.MethodPost, kit.Ping)
			req.Body = io.NopCloser(kit.ReaderFunc(func(p []byte) (int, error) {
				kit.Elapse(10 * time.Second)
				return left.Read(p[:1])
			}))
			req.ContentLength = length
			body, res := kit.ReadAll(t, c.Do(req))
			require.Equal(t, "200 result", fmt.Sprintf("%d %s", res.StatusCode, kit.MessageSummary(body)))
		}
		require.Zero(t, c.Server().Stats().Refused)
	})
}

// A middleware may have a lower limit than the server. A body over that limit is refused like one over the server's, with and without a
// Content-Length.
func TestAMiddlewaresLimitOfABody(t *testing.T) {
	const limit = 1000
	kit.Bubble(t, func(t *testing.T) {
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{})
		id, _ := kit.Open(t, s)
		for _, length := range []int64{limit + 1, -1, 1, 1 << 60} {
			r := kit.InSession(t, id, padded(limit+1))
			r.ContentLength = length
			r.Body = http.MaxBytesReader(nil, r.Body, limit)
			require.Equal(t, `413 error(-32600,"mine") ended`, kit.Serve(s, r).Summary(), "said to be %d", length)
		}
	})
}
