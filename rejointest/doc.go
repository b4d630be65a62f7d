// Package rejointest tests how your tools are polled: it has a real server over in-memory pipes, or several of a cluster, and a client that
// polls when you say.
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
// # Several processes
//
// NewCluster starts several processes that share their sessions (rejoin.Cluster). Each request of a client goes to another one in turn. You kill
// processes, shut them down as a deploy does, and start others:
//
//	func TestExportSurvivesADeploy(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			cluster := rejointest.NewCluster(t, app, rejointest.Config{})
//			c := cluster.NewClient()
//			call := c.CallTool("export", map[string]any{"rows": 1000})
//			owner := c.Owner() // the process that runs it
//			cluster.Start()    // the new version
//			owner.Shutdown(15 * time.Minute)
//			if got := string(call.Result()); got != `{"url":"https://example.com/1000"}` {
//				t.Errorf("result: %s", got)
//			}
//			if err := owner.Wait(); err != nil {
//				t.Errorf("the old version has ended with %v", err)
//			}
//		})
//	}
//
// After Kill in place of Shutdown, the same call ends with an error whose Reason is rejoin.ReasonOwnerLost, unless its result was recorded before.
// As long as the others do not know that the owner is dead, requests for it wait, or are refused, which fails a test in Notify.
//
// # Time
//
// A test runs in the bubble of testing/synctest. There time is virtual: it stands still while any goroutine can run, and jumps to
// the next timer when none can. So a call of ten minutes takes no time, and every duration is exact. New fails the test outside
// a bubble.
//
// Methods that start or change something (CallTool, Poll, Cut) return when the bubble is at rest: the server has answered as far as
// it can at this moment, the tool waits or has returned, and the client has read what there is. Methods that look (Messages, IDs,
// Wire, Open) wait until the bubble is at rest. So you only have to let time pass: with time.After, or with WaitClosed, WaitMessages,
// Result and Err, which fail the test after Config.Patience.
//
// Nothing in a bubble may block on anything outside it. A tool that waits for a real network connection stops the clock.
//
// # The connection
//
// Each request of a client has a connection of its own that behaves as TCP does: 64 KiB of buffer per direction, deadlines, an orderly close and
// an abrupt one. The HTTP server is that of net/http, configured by Config.HTTP, with your own router, mounted by Config.Handler: so you
// see time-outs and middleware that break streams. The addresses are from
// 192.0.2.0/24 and 198.51.100.0/24, which are kept for documentation.
//
// # The client
//
// It speaks the protocol of Config.Version, with primers and polls if that is 2025-11-25, and answers the server's requests with
// Config.OnRequest. It does nothing else by itself; above all, it does not reconnect. To it event ids are opaque. It fails the test if
// one comes twice, if a replay differs from what was sent before, if a message is not JSON-RPC, and if a response is to another request.
//
// # Goroutines
//
// Call the methods of Client, Call, Cluster and Process from one goroutine, the test's: they call synctest.Wait and t.Fatal. OnRequest and
// tools run in others; when one of those methods has returned, the test may read what they have written. What New, NewCluster and clients
// have started ends with the test; see New.
package rejointest
