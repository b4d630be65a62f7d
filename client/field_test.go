package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

// The limit that somebody sets for connecting ends with it: it is none for what is connected, neither for calls nor for what is listened to.
func TestTheTimeForConnectingIsNoLimitForStreams(t *testing.T) {
	bubble(t, func(t *testing.T) {
		quiet := func(w http.ResponseWriter, r *http.Request, last string) {
			stream(w, primer("a"))
			for range 3600 {
				pause(r, time.Second)
				stream(w, ": \n\n")
			}
			stream(w, last)
		}
		server := &script{
			post: func(w http.ResponseWriter, r *http.Request, h hit, n int) { quiet(w, r, event("z", done)) },
			get: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				quiet(w, r, event("z", note(1)))
				pause(r, time.Hour)
			},
		}
		heard := 0
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		s, err := client.Connect(ctx, address, client.Config{
			HTTP: serve(t, server), IdleTimeout: 2 * time.Second, OnNotification: func(string, json.RawMessage) { heard++ },
		})
		require.NoError(t, err)
		call := start(t, s)
		<-time.After(11 * time.Second)
		require.Error(t, ctx.Err())
		require.NoError(t, call.Wait(t.Context(), nil))
		synctest.Wait()
		require.Equal(t, 1, heard)
		require.Len(t, server.hits("GET", ""), 1, "comments are signs of life")
		require.Empty(t, server.hits("POST", "notifications/cancelled"))
		require.NoError(t, s.Close(t.Context()))
	})
}

// Close waits for no stream, whatever it is doing: reading, waiting to come back, or for a head that does not come.
func TestCloseReturnsAtOnceWhateverStreamsDo(t *testing.T) {
	for name, post := range map[string]func(w http.ResponseWriter, r *http.Request){
		"reading":           func(w http.ResponseWriter, r *http.Request) { stream(w, primer("a")); pause(r, time.Hour) },
		"between two polls": func(w http.ResponseWriter, r *http.Request) { stream(w, primer("a")+"retry: 3600000\n\n") },
		"without a head":    func(w http.ResponseWriter, r *http.Request) { pause(r, time.Hour) },
		"after an error":    func(w http.ResponseWriter, r *http.Request) { stream(w, primer("a")); panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				both := func(w http.ResponseWriter, r *http.Request, h hit, n int) { post(w, r) }
				hc := serve(t, &script{post: both, get: both})
				var cfg client.Config
				if name != "without a head" { // Connect waits for it
					cfg.OnNotification = func(string, json.RawMessage) {}
				}
				cfg.HTTP, cfg.HeaderTimeout, cfg.RetryLimit = hc, time.Hour, 2*time.Hour
				s, err := client.Connect(t.Context(), address, cfg)
				require.NoError(t, err)
				call := start(t, s)
				synctest.Wait()
				begun := time.Now()
				require.NoError(t, s.Close(t.Context()))
				require.ErrorIs(t, call.Wait(t.Context(), nil), client.ErrClosed)
				require.Zero(t, time.Since(begun))
			})
		})
	}
}

// A result of 5 MB arrives, however its stream is written: with any line ends, in one line or in thousands, after a byte order mark, with
// fields that nobody knows, in pieces of any size.
func TestALargeResultHoweverItIsWritten(t *testing.T) {
	const size = 5_000_000
	text := strings.Repeat("0123456789abcde\u00e9", size/16)
	want := `{"text":"` + text + `"}`
	oneLine := `{"jsonrpc":"2.0","id":2,"result":` + want + `}`
	spaced := `{"jsonrpc":"2.0",` + strings.Repeat("\n ", 50_000) + `"id":2,"result":` + want + "\n}"
	for name, test := range map[string]struct {
		data, end, before string
		piece             int
	}{
		"LF":                       {oneLine, "\n", "", 1 << 20},
		"CRLF":                     {oneLine, "\r\n", "", 4096},
		"CR":                       {oneLine, "\r", "", 65_537},
		"many lines, LF":           {spaced, "\n", "", 1 << 20},
		"many lines, CRLF":         {spaced, "\r\n", "", 1021},
		"many lines, CR":           {spaced, "\r", "", 4093},
		"fields that nobody needs": {oneLine, "\r\n", "\ufeff: hello\r\nevent: message\r\nfoo: bar\r\nfoo\r\n", 10_007},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var body bytes.Buffer
				body.WriteString(test.before)
				fmt.Fprintf(&body, "id: a%sretry: 10%[1]sdata: %[1]s%[1]s", test.end)
				body.WriteString("id: z" + test.end)
				for line := range strings.SplitSeq(test.data, "\n") {
					body.WriteString("data: " + line + test.end)
				}
				body.WriteString(test.end)
				server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
					for rest := body.Bytes(); len(rest) > 0; {
						n := min(len(rest), test.piece)
						stream(w, string(rest[:n]))
						rest = rest[n:]
					}
					pause(r, time.Hour) // the result is there before the end of the stream is
				}}
				_, _, call := play(t, server, client.Config{})
				begun := time.Now()
				var got struct{ Text string }
				require.NoError(t, call.Wait(t.Context(), &got))
				require.Zero(t, time.Since(begun))
				same := got.Text == text // to print them would help nobody
				require.True(t, same, "%d bytes", len(got.Text))
				require.Empty(t, server.hits("GET", ""))
			})
		})
	}
}

// A stream that ends in the middle of an event has not brought it, and the client asks for it again from the last whole one, putting the
// cursor on the GET alone.
func TestAPartOfAnEventIsNone(t *testing.T) {
	whole := event("b", done)
	bubble(t, func(t *testing.T) {
		for cut := 1; cut < len(whole)-1; cut++ { // one byte less than the blank line
			server := &script{
				post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
					stream(w, "id: a\nretry: 10\ndata: \n\n"+whole[:cut])
				},
				get: func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, whole) },
			}
			s, err := client.Connect(t.Context(), address, client.Config{HTTP: serve(t, server)})
			require.NoError(t, err)
			call := start(t, s)
			require.NoError(t, call.Wait(t.Context(), nil))
			polls := server.hits("GET", "")
			require.Len(t, polls, 1)
			require.Equal(t, "a", polls[0].cursor, "%q", whole[:cut])
			for _, h := range server.hits("POST", "") {
				require.Empty(t, h.cursor)
			}
			require.NoError(t, s.Close(t.Context()))
		}
	})
}
