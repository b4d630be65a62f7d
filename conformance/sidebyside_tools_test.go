package conformance_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"
)

// A client keeps its connection and stops reading, while a tool sends more than the connection can buffer.
func TestSideBySideClientThatDoesNotRead(t *testing.T) {
	const messages = 2000
	compare(t, sights{
		goSDK:          "the tool waits, and all arrives",
		goSDKWithStore: "the tool waits, and all arrives",
		mcpGo:          "messages are lost",
		mcpGoWithStore: "messages are lost",
		rejoin:         "the tool does not wait, and all arrives",
	}, func(t *testing.T, enter func(work) *booth) string {
		ended := make(chan struct{})
		refused := 0
		b := enter(func(d desk) string {
			defer close(ended)
			for range messages {
				if d.progress(strings.Repeat("x", 1024)) != nil {
					refused++
				}
			}
			return "done"
		})
		call := b.stall(callOf(1))
		if strings.HasSuffix(t.Name(), "/mcp-go") { // it waits for a mutex, and then synctest does not count the bubble as blocked
			for range 20 {
				b.ping()
			}
		} else {
			elapse(time.Minute)
		}
		fate := "the tool does not wait"
		select {
		case <-ended:
		default:
			fate = "the tool waits"
		}
		call.read()
		<-ended
		elapse(time.Second)
		arrived := len(call.told())
		if !call.answered() && call.cursor() != "" {
			arrived += len(b.listen(call.cursor()).told())
		}
		if refused > 0 || arrived < messages {
			return "messages are lost"
		}
		return fate + ", and all arrives"
	})
}

// A connection breaks while a tool runs: before the tool has sent anything, or after.
func TestSideBySideBrokenConnection(t *testing.T) {
	compare(t, sights{
		goSDK:          "silent: the tool goes on, no id to ask for the answer with; after a message: the tool goes on, no id to ask for the answer with",
		goSDKWithStore: "silent: the tool goes on, the answer is fetched; after a message: the tool goes on, the answer is fetched",
		mcpGo:          "silent: the tool is cancelled, no id to ask for the answer with; after a message: the tool is cancelled, no id to ask for the answer with",
		mcpGoWithStore: "silent: the tool is cancelled, no id to ask for the answer with; after a message: the tool is cancelled, the answer is fetched",
		rejoin:         "silent: the tool goes on, the answer is fetched; after a message: the tool goes on, the answer is fetched",
	}, func(t *testing.T, enter func(work) *booth) string {
		var got []string
		say, release := make(chan string), make(chan struct{})
		ends := make(chan error, 2)
		b := enter(func(d desk) string {
			for message := range say {
				_ = d.progress(message)
				release <- struct{}{}
			}
			<-release
			ends <- d.ctx.Err()
			return "done"
		})
		for i, sends := range []bool{false, true} {
			call := b.call(i)
			if sends {
				say <- "1"
				<-release
			}
			elapse(time.Second)
			call.cut()
			elapse(time.Second)
			close(say)
			release <- struct{}{}
			fate := "goes on"
			if <-ends != nil {
				fate = "is cancelled"
			}
			synctest.Wait()
			answer := "no id to ask for the answer with"
			if cursor := call.cursor(); cursor != "" {
				answer = "the answer is lost"
				if b.listen(cursor).answered() {
					answer = "the answer is fetched"
				}
			}
			got = append(got, fmt.Sprintf("the tool %s, %s", fate, answer))
			say = make(chan string)
		}
		return "silent: " + got[0] + "; after a message: " + got[1]
	})
}

// A client ends its session while a tool runs.
func TestSideBySideDelete(t *testing.T) {
	compare(t, sights{
		goSDK:          "waits for the tool, the tool goes on, then a call gets 404",
		goSDKWithStore: "waits for the tool, the tool goes on, then a call gets 404",
		mcpGo:          "answered 200, the tool goes on, then a call gets 200",
		mcpGoWithStore: "answered 200, the tool goes on, then a call gets 200",
		rejoin:         "answered 204, the tool is cancelled, then a call gets 404",
	}, func(t *testing.T, enter func(work) *booth) string {
		release, ends := make(chan struct{}), make(chan error, 1)
		b := enter(func(d desk) string {
			select {
			case <-d.ctx.Done():
			case <-release:
			}
			ends <- d.ctx.Err()
			return "done"
		})
		b.call(1)
		deleted := b.end()
		elapse(10 * time.Minute)
		got := fmt.Sprint("answered ", deleted.code())
		if deleted.code() == 0 {
			got = "waits for the tool"
		}
		close(release)
		fate := ", the tool goes on"
		if <-ends != nil {
			fate = ", the tool is cancelled"
		}
		synctest.Wait()
		return got + fate + fmt.Sprint(", then a call gets ", b.call(2).code())
	})
}

// What a tool finds in its context, which comes from a middleware and a router that recycles contexts, in a session whose first request was
// that of another user and another tenant.
func TestSideBySideContextValues(t *testing.T) {
	compare(t, sights{
		goSDK:          "Bob of other",
		goSDKWithStore: "Bob of other",
		mcpGo:          "Ann of acme",
		mcpGoWithStore: "Ann of acme",
		rejoin:         "Ann of acme",
	}, func(t *testing.T, enter func(work) *booth) string {
		look, seen := make(chan struct{}), make(chan [2]string)
		b := enter(func(d desk) string {
			for range look {
				user, _ := d.ctx.Value(userKey{}).(string)
				seen <- [2]string{user, chi.URLParamFromCtx(d.ctx, "tenant")}
			}
			return "done"
		})
		got := ""
		for range 20 { // a pool may drop what is put into it, and often does with the race detector
			b.path = "/acme/mcp"
			b.header.Set("X-User", "Ann")
			call := b.call(1)
			look <- struct{}{}
			user := (<-seen)[0]
			call.cut()
			elapse(time.Second)
			for range 100 {
				b.handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPut, "/other/mcp", nil))
				look <- struct{}{}
				if got = user + " of " + (<-seen)[1]; strings.HasSuffix(got, "other") {
					break
				}
			}
			close(look)
			synctest.Wait()
			if strings.HasSuffix(got, "other") {
				break
			}
			look = make(chan struct{})
			b.reconnect()
		}
		return got
	})
}
