package adaptertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// bothEras is an app with a handler for the modern era.
type bothEras struct {
	rejoin.App
	modern http.HandlerFunc
}

func (a bothEras) Modern() http.Handler { return a.modern }

const modernCall = `{"jsonrpc":"2.0","id":"m","method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`

// Requests of the modern era have no session, but a handler of the app. The handler reads its own request's values, also in goroutines that
// run on after it has returned. It gets its whole body, and what it flushes is sent at once.
func modern(e *exam) {
	const users = 50
	over := make(chan struct{})
	release := sync.OnceFunc(func() { close(over) })
	defer release()
	late := make(chan string, 2*users)
	tell := func(w http.ResponseWriter, text string) {
		_, _ = fmt.Fprintf(w, "data: %q\n\n", text)
		_ = http.NewResponseController(w).Flush()
	}
	c := e.start(bothEras{idle(), func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if body, _ := io.ReadAll(r.Body); string(body) != modernCall {
			e.Errorf("the modern handler's body is %q", body)
		}
		go func() {
			<-over
			late <- e.who(ctx)
		}()
		w.Header().Set("Content-Type", "text/event-stream")
		tell(w, e.who(ctx))
		elapse(time.Second)
		tell(w, e.who(ctx))
	}}, rejointest.Config{
		Path: "/nobody/mcp", Header: http.Header{UserHeader: {"nobody"}}, Server: rejoin.Config{Eras: rejoin.EraBoth}, Handler: e.mount("/{tenant}/mcp"),
	})
	var want []string
	for i := range users {
		u := newUser(i, nil)
		want = append(want, u.who())
		began := time.Now()
		res := c.Do(u.request(http.MethodPost, modernCall))
		if d := time.Since(began); d != 0 {
			e.Errorf("the head of a modern stream took %v", d)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		a := answer{res.StatusCode, res.Header, string(body)}
		name, _ := json.Marshal(u.who())
		if event := "data: " + string(name) + "\n\n"; err != nil || a.status != http.StatusOK || a.body != event+event {
			e.Errorf("the modern handler of %s: %+v, %v", u.who(), a, err)
		}
		if a.header.Get("Content-Type") != "text/event-stream" || a.header.Get("Cache-Control") != "no-cache, no-transform" ||
			a.header.Get("X-Accel-Buffering") != "no" {
			e.Errorf("the head of a modern stream is %v", a.header)
		}
	}
	for range users { // the router reuses its contexts for these
		e.send(c, newUser(users, nil).request(http.MethodPost, ping))
	}
	release()
	synctest.Wait()
	close(late)
	var got []string
	for who := range late {
		got = append(got, who)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		e.Errorf("when their requests are over, modern tools read %.200q", got)
	}
}
