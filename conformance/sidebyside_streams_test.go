package conformance_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
)

// A tool closes its stream three times. The client is the official one, which polls.
func TestSideBySideClosedAgain(t *testing.T) {
	compare(t, sights{
		goSDK:          `calling "tools/call": request terminated without response`,
		goSDKWithStore: `calling "tools/call": request terminated without response`,
		mcpGo:          "no way to close",
		mcpGoWithStore: "no way to close",
		rejoin:         "done",
	}, func(t *testing.T, enter func(work) *booth) string {
		again := make(chan struct{})
		b := enter(func(d desk) string {
			for range 3 {
				if how := d.letGo(time.Second); how != "closed" {
					return how
				}
				<-again
			}
			return "done"
		})
		client := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "1"}, nil)
		s, err := client.Connect(context.WithoutCancel(t.Context()), &mcp.StreamableClientTransport{
			Endpoint: "http://localhost/mcp", HTTPClient: &http.Client{Transport: b.transport()}, DisableStandaloneSSE: true,
		}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		require.NoError(t, err)
		ended := make(chan string, 1)
		go func() {
			result, err := s.CallTool(context.WithoutCancel(t.Context()), &mcp.CallToolParams{Name: "work"})
			if err != nil {
				ended <- err.Error()
				return
			}
			ended <- result.Content[0].(*mcp.TextContent).Text
		}()
		for range 3 {
			elapse(time.Minute) // by then the client has done everything that it does
			select {
			case again <- struct{}{}:
			default:
			}
		}
		got := "never ended"
		synctest.Wait()
		select {
		case got = <-ended:
		default:
		}
		close(again)
		_ = s.Close()
		return got
	})
}

// A client requests the standalone stream again while the server has not noticed that the old connection is dead, which can take minutes.
func TestSideBySideOldStandaloneStreamHangs(t *testing.T) {
	compare(t, sights{
		goSDK:          "409, messages come on the old connection",
		goSDKWithStore: "409, messages come on the old connection",
		mcpGo:          "200, messages come on either connection",
		mcpGoWithStore: "200, messages come on the new connection",
		rejoin:         "200, messages come on the new connection",
	}, func(t *testing.T, enter func(work) *booth) string {
		b := enter(func(d desk) string {
			d.broadcast("1")
			d.broadcast("2")
			return "done"
		})
		old, fresh := b.listen(""), b.listen("")
		b.call(1)
		return fmt.Sprint(fresh.code(), ", ", between(old, fresh))
	})
}

// between returns which of the two connections got the message.
func between(old, fresh *flight) string {
	switch {
	case len(old.told()) == 0:
		return "messages come on the new connection"
	case len(fresh.told()) == 0:
		return "messages come on the old connection"
	}
	return "messages come on either connection"
}

// The same for the stream of a call, which the client resumes.
func TestSideBySideOldCallHangs(t *testing.T) {
	compare(t, sights{
		goSDK:          "no id to resume with",
		goSDKWithStore: "409, on the old connection [1 2], on the new []",
		mcpGo:          "no id to resume with",
		mcpGoWithStore: "200, the new connection goes on where the old one was",
		rejoin:         "200, the new connection goes on where the old one was",
	}, func(t *testing.T, enter func(work) *booth) string {
		say := make(chan string)
		b := enter(func(d desk) string {
			for message := range say {
				_ = d.progress(message)
			}
			return "done"
		})
		old := b.call(1)
		say <- "1"
		synctest.Wait()
		defer synctest.Wait()
		defer close(say)
		if old.cursor() == "" {
			return "no id to resume with"
		}
		fresh := b.listen(old.cursor())
		before := old.told()
		say <- "2"
		synctest.Wait()
		if got := fresh.told(); slices.Equal(before, []string{"1"}) && slices.Equal(got, []string{"2"}) && len(old.told()) == 1 {
			return fmt.Sprint(fresh.code(), ", the new connection goes on where the old one was")
		}
		return fmt.Sprintf("%d, on the old connection %v, on the new %v", fresh.code(), old.told(), fresh.told())
	})
}

// A client requests the standalone stream again, without a cursor: it should get new messages, and not those that it got before.
func TestSideBySideFreshStream(t *testing.T) {
	compare(t, sights{
		goSDK:          "200, nothing comes again",
		goSDKWithStore: "what was seen comes again",
		mcpGo:          "200, nothing comes again",
		mcpGoWithStore: "200, nothing comes again",
		rejoin:         "200, nothing comes again",
	}, func(t *testing.T, enter func(work) *booth) string {
		b := enter(func(d desk) string {
			d.broadcast("news")
			return "done"
		})
		old := b.listen("")
		b.call(1)
		require.Equal(t, []string{"news"}, old.told())
		old.cut()
		synctest.Wait()
		fresh := b.listen("")
		if len(fresh.told()) > 0 {
			return "what was seen comes again"
		}
		return fmt.Sprint(fresh.code(), ", nothing comes again")
	})
}

// Several calls of one session run at once, and each reports progress.
func TestSideBySideConcurrentCalls(t *testing.T) {
	const calls, steps = 8, 20
	compare(t, sights{
		goSDK:          "each call's on its own stream",
		goSDKWithStore: "each call's on its own stream",
		mcpGo:          "messages of calls on the streams of others",
		mcpGoWithStore: "messages of calls on the streams of others",
		rejoin:         "each call's on its own stream",
	}, func(t *testing.T, enter func(work) *booth) string {
		turns := make(chan string)
		start := make(chan struct{})
		b := enter(func(d desk) string {
			name := <-turns
			<-start
			for range steps {
				_ = d.progress(name)
			}
			return name
		})
		b.listen("")
		flights := make([]*flight, calls)
		for i := range flights {
			flights[i] = b.call(i)
			turns <- fmt.Sprint("call ", i)
		}
		close(start)
		synctest.Wait()
		for _, f := range flights {
			own := 0
			for _, message := range f.told() {
				if message == f.text() {
					own++
				}
			}
			if own != steps || len(f.told()) != steps {
				return "messages of calls on the streams of others"
			}
		}
		return "each call's on its own stream"
	})
}

// A tool reports progress and returns at once, again and again, while nothing else happens. The same for clients of 2026-07-28.
func TestSideBySideLastMessages(t *testing.T) {
	const calls = 200
	reports := func(d desk) string {
		for _, message := range []string{"0", "1", "2"} {
			_ = d.progress(message)
		}
		return "done"
	}
	arrive := func(call func(n int) *flight) string {
		for i := range calls {
			if f := call(i); !slices.Equal(f.told(), []string{"0", "1", "2"}) || f.text() != "done" {
				return "some are lost"
			}
		}
		return "all arrive"
	}
	compare(t, sights{
		goSDK:          "all arrive",
		goSDKWithStore: "all arrive",
		mcpGo:          "some are lost",
		mcpGoWithStore: "all arrive",
		rejoin:         "all arrive",
	}, func(_ *testing.T, enter func(work) *booth) string { return arrive(enter(reports).call) })
	both := func(s sdk) func(*testing.T, work) http.Handler {
		return func(t *testing.T, w work) http.Handler {
			srv, err := rejoin.NewServer(s.bridge(w), rejoin.Config{Eras: rejoin.EraBoth, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			t.Cleanup(srv.Close)
			return stdadapter.New(srv)
		}
	}
	for name, house := range map[string]struct {
		mount func(*testing.T, work) http.Handler
		want  string
	}{
		"go-sdk behind rejoin": {both(goSDK), "all arrive"},
		"mcp-go":               {own(mcpGo, false), "some are lost"},
		"mcp-go behind rejoin": {both(mcpGo), "all arrive"},
	} {
		t.Run("2026-07-28 "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				require.Equal(t, house.want, arrive(open(t, house.mount(t, reports)).modernCall))
			})
		})
	}
}

// modernCall is call as a request of 2026-07-28, which needs no session.
func (b *booth) modernCall(n int) *flight {
	b.path, b.header = "/mcp", http.Header{
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"work"},
	}
	return b.fly(http.MethodPost, strings.Replace(callOf(n), `"_meta":{`, `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"plain","version":"1"},`, 1), "")
}
