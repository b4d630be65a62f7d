// Package rejointest tests your tools' polling: a real server over in-memory pipes, and a client that comes back when you say.
//
//	func TestExportSurvivesAProxy(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			c := rejointest.New(t, app(), rejointest.Config{})
//			call := c.CallTool("export", map[string]any{"rows": 1000})
//			call.WaitMessages(1) // progress
//			call.Cut()           // the proxy has had enough
//			<-time.After(time.Minute)
//			call.Poll() // the client is back
//			call.WaitMessages(2)
//			retry := call.WaitClosed() // the tool lets its client go
//			if retry < 5*time.Minute {
//				t.Errorf("back after %v already", retry)
//			}
//			if got := string(call.Result()); got != `{"url":"https://example.com/1000"}` {
//				t.Errorf("result: %s", got)
//			}
//		})
//	}
//
// # Time
//
// A test runs in the bubble of testing/synctest. There time is virtual: it stands still while anything can happen, and jumps to
// the next timer when nothing can, so a call of ten minutes takes no time, and every duration is exact. New refuses to work outside
// a bubble.
//
// What starts or changes something (CallTool, Poll, Cut) returns when the bubble has come to rest: the server has answered as far as
// it can at this moment, the tool waits or has returned, and the client has read what there is. What looks (Messages, IDs,
// Wire, Open) lets it come to rest first. So there is nothing to wait for but time: let it pass with time.After, or use WaitClosed, WaitMessages,
// Result and Err, each of which fails the test after Config.Patience.
//
// What must not happen in a bubble: blocking on anything outside it. A tool that waits for a real network connection stops the
// clock.
//
// # The connection
//
// Each request has a connection of its own with the manners of TCP: 64 KiB of buffer per direction, deadlines, an orderly close and
// an abrupt one. HTTP is net/http's own server, configured by Config.HTTP, behind your own router, mounted by Config.Handler; so
// time-outs and middleware that break streams show. The addresses are from 192.0.2.0/24, which is kept for documentation.
//
// # The client
//
// It speaks the protocol of Config.Version, primed and polling if that is 2025-11-25, and answers the server's requests with
// Config.OnRequest. Else it does nothing on its own, least of all reconnect. It looks into no event id, and fails the test where
// one comes twice, a replay is not what was sent before, messages are no JSON-RPC or responses belong to other requests.
//
// # Goroutines
//
// The methods of Client and Call belong to one goroutine, the test's: they call synctest.Wait, and t.Fatal. OnRequest and tools run
// in others; what they write may be read by the test after any of those methods has returned. When the test ends, so
// does everything that New and the client started; see New.
package rejointest
