package mcpgo

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

const mixedRounds = 20

// mixed sends messages of each kind, disconnects its client twice, and checks that each answer belongs to its own question.
func mixed(begin <-chan struct{}) handler {
	return func(ctx context.Context, s *server.MCPServer, request mcp.CallToolRequest) (string, error) {
		name := request.GetString("name", "")
		<-begin
		for i := range mixedRounds {
			mark, got, err := fmt.Sprintf("%s-%d", name, i), "", error(nil)
			switch i % 5 {
			case 0:
				err = progress(ctx, s, name, i)
			case 1:
				err = s.SendLogMessageToClient(ctx, mcp.NewLoggingMessageNotification(mcp.LoggingLevelError, "l", mark))
			case 2:
				got, err = elicit(ctx, s, mark)
			case 3:
				got, err = sample(ctx, s, mark)
			case 4:
				_, err = listRoots(ctx, s)
			}
			if err != nil {
				return "", err
			}
			if got != "" && got != mark {
				return "", fmt.Errorf("asked %s, answered %s", mark, got)
			}
			if i == 6 || i == 13 {
				if err := rejoin.HandleFromContext(ctx).CloseStream(0); err != nil {
					return "", err
				}
			}
		}
		return name, nil
	}
}

func mixedWants(name string) []string {
	want := []string{}
	for i := range mixedRounds {
		want = append(want, []string{
			"notifications/progress " + name + " " + strconv.Itoa(i),
			fmt.Sprintf("notifications/message %s-%d", name, i),
			fmt.Sprintf("elicitation/create %s-%d", name, i),
			fmt.Sprintf("sampling/createMessage %s-%d", name, i),
			"roots/list",
		}[i%5])
	}
	return append(want, "result "+name)
}

// All messages of a call are on its own stream, once and in order, with one session and with many, also after closes.
func TestMessagesOfConcurrentCallsStayOnTheirStreams(t *testing.T) {
	for _, c := range []struct{ clients, calls int }{{1, 16}, {8, 2}, {16, 1}} {
		t.Run(fmt.Sprintf("%d clients with %d calls each", c.clients, c.calls), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				begin := make(chan struct{})
				app := New(newMCP(&server.Hooks{}, map[string]handler{"mixed": mixed(begin)}))
				calls := map[string]*rejointest.Call{}
				for i := range c.clients {
					client := rejointest.New(t, app, rejointest.Config{OnRequest: echo})
					for j := range c.calls {
						name := fmt.Sprintf("c%d.%d", i, j)
						calls[name] = client.CallTool("mixed", map[string]string{"name": name})
					}
				}
				close(begin)
				for name, call := range calls {
					call.Result()
					same(t, name, summaries(t, call), mixedWants(name))
				}
			})
		})
	}
}

// mcp-go drops notifications if the channel is full. Behind the bridge it is never full.
func TestNoNotificationOfABurstIsLost(t *testing.T) {
	const n = 5000
	for _, senders := range []int{1, 250} {
		t.Run(strconv.Itoa(senders)+" senders", func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				refused := &list[error]{}
				c := rejointest.New(t, New(newMCP(&server.Hooks{}, map[string]handler{
					"burst": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
						var all sync.WaitGroup
						for k := range senders {
							all.Go(func() {
								for i := range n / senders {
									if err := progress(ctx, s, "b", k*n/senders+i); err != nil {
										refused.add(err)
									}
								}
							})
						}
						all.Wait()
						return "done", nil
					},
				})), rejointest.Config{})
				call := c.CallTool("burst", nil)
				call.Result()
				same(t, "refused", len(refused.got()), 0)
				got := summaries(t, call)
				if senders > 1 {
					slices.SortFunc(got[:n], func(a, b string) int { return last(t, a) - last(t, b) })
				}
				want := []string{}
				for i := range n {
					want = append(want, "notifications/progress b "+strconv.Itoa(i))
				}
				same(t, "messages", got, append(want, "result done"))
			})
		})
	}
}

func last(t *testing.T, s string) int {
	t.Helper()
	var n int
	if _, err := fmt.Sscanf(s, "notifications/progress b %d", &n); err != nil {
		t.Fatal(s)
	}
	return n
}

// Broadcasts, and messages that belong to no call, are on the standalone stream, also if a tool sends them.
func TestBroadcastsTravelOnTheStandaloneStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newMCP(&server.Hooks{}, map[string]handler{
			"tell": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
				s.SendNotificationToAllClients("notifications/all", nil)
				id := server.ClientSessionFromContext(ctx).SessionID()
				if err := s.SendNotificationToSpecificClient(id, "notifications/one", nil); err != nil {
					return "", err
				}
				own := server.ServerTool{Tool: mcp.NewTool("own"), Handler: func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					return mcp.NewToolResultText("mine"), nil
				}}
				return "told", s.AddSessionTools(id, own)
			},
		})
		app := New(s)
		c, other := rejointest.New(t, app, rejointest.Config{}), rejointest.New(t, app, rejointest.Config{})
		listen, otherListen := c.Listen(), other.Listen()
		call := c.CallTool("tell", nil)
		call.Result()
		same(t, "the call", summaries(t, call), []string{"result told"})
		same(t, "its session", summaries(t, listen), []string{"notifications/all", "notifications/one", "notifications/tools/list_changed"})
		same(t, "the other", summaries(t, otherListen), []string{"notifications/all"})

		own := c.CallTool("own", nil)
		own.Result()
		same(t, "the session's tool", summaries(t, own), []string{"result mine"})
		if e := other.CallTool("own", nil).Err(); e.Code != rejoin.CodeInvalidParams {
			t.Fatal(e)
		}

		s.DeleteTools("tell")
		listen.WaitMessages(4)
		otherListen.WaitMessages(2)

		var all sync.WaitGroup
		for range 250 {
			all.Go(func() { s.SendNotificationToAllClients("notifications/burst", nil) })
		}
		all.Wait()
		listen.WaitMessages(254)
		otherListen.WaitMessages(252)
	})
}

// A goroutine of a tool can use the context after the call has ended: its messages go to the standalone stream.
func TestWhatIsSentAfterTheCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release, errs := make(chan struct{}), &list[error]{}
		c := rejointest.New(t, New(newMCP(&server.Hooks{}, map[string]handler{
			"leave": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
				kept := server.ClientSessionFromContext(ctx).NotificationChannel()
				go func() {
					<-release
					for range 20 {
						errs.add(s.SendNotificationToClient(ctx, "notifications/late", nil))
						_, err := elicit(context.WithoutCancel(ctx), s, "late?")
						errs.add(err)
						errs.add(s.SendNotificationToClient(ctx, "notifications/late", nil))
						errs.add(rejoin.HandleFromContext(ctx).Notify("notifications/later", nil))
					}
				}()
				kept <- mcp.JSONRPCNotification{Notification: mcp.Notification{Method: "notifications/direct"}}
				return "left", nil
			},
		})), rejointest.Config{OnRequest: echo})
		listen := c.Listen()
		call := c.CallTool("leave", nil)
		call.Result()
		close(release)
		listen.WaitMessages(80)
		elapse(time.Second)
		same(t, "standalone", summaries(t, listen), slices.Repeat([]string{
			"notifications/late", "elicitation/create late?", "notifications/late", "notifications/later",
		}, 20))
		same(t, "errors", errs.got(), make([]error, 80))
		same(t, "the call", summaries(t, call), []string{"notifications/direct", "result left"})
	})
}

// mcp-go sends through a channel, and the handle does not. Messages through both keep their order.
func TestTheHandleAndTheSDKKeepOneOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := rejointest.New(t, New(newMCP(&server.Hooks{}, map[string]handler{
			"both": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
				for i := range 50 {
					if err := progress(ctx, s, "b", 2*i); err != nil {
						return "", err
					}
					h := rejoin.HandleFromContext(ctx)
					if err := h.Notify("notifications/progress", map[string]any{"progressToken": "b", "progress": 2*i + 1}); err != nil {
						return "", err
					}
				}
				if err := progress(ctx, s, "b", 100); err != nil {
					return "", err
				}
				if err := rejoin.HandleFromContext(ctx).CloseStream(0); err != nil {
					return "", err
				}
				return "done", nil
			},
		})), rejointest.Config{})
		call := c.CallTool("both", nil)
		call.WaitClosed()
		want := []string{}
		for i := range 101 {
			want = append(want, "notifications/progress b "+strconv.Itoa(i))
		}
		same(t, "before the close", summaries(t, call), want)
		call.Result()
	})
}
