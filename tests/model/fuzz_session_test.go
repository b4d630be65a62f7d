package model_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// FuzzSession interprets bytes as actions of clients (initialize, call, notify, poll with any cursor, disconnect, cancel, answer, DELETE) and of
// tools (notify, ask, close, answer), in any order. verdict_test.go says what must hold at the end.
func FuzzSession(f *testing.F) {
	for _, play := range []string{
		"\x00" + "c\x00n\x00n\x01k\x00n\x00p\x01r\x00",            // closed, and polled for the result
		"\x01" + "c\x00n\x00p\x00p\x00n\x00n\x00r\x00p\x00",       // taken over
		"\x02" + "c\x00c\x00c\x01n\x00x\x00n\x00r\x00p\x01",       // the same id twice; disconnected
		"\x03" + "I\x01b\x01n\x00n\x01r\x00r\x00r\x00",            // a batch
		"\x04" + "I\x02c\x01n\x00x\x00r\x00p\x00",                 // a client that cannot poll
		"\x05" + "g\x00s\x00s\x01g\x00s\x02x\x00s\x00g\x00p\x03",  // the standalone stream
		"\x06" + "c\x00n\x00a\x00A\x00a\x01c\x01q\x00w\x20p\x01",  // asked and answered
		"\x07" + "c\x00n\x00i\x00r\x00p\x01c\x00D\x00I\x00c\x00r", // cancelled, then deleted
		"\x08" + "c\x00w\xffw\xffw\xffn\x00p\x01w\xffr\x00p\x02",  // CloseAfter
		"\x10" + "c\x03n\x00r\x00c\x05r\x00c\x07n\x00x\x01p\x00e\x00",
	} {
		f.Add([]byte(play))
	}
	f.Add([]byte("\x9b807y0U\xc6s[\x97C\xf9ޯ\xb9+\xf9\xb9\xadW>\xd2,\x968K\xdc\x15\xb8R\x94\"\xe8/\x0e\x81\xcd\xd46\xfb\xb6\xcad\x90\"\xb4i\xb5\x92\xb0\xce\x04\xef\x8d\x12\x92sJ&\xe9\xfc\xdfq?\x13\x7f\xff\xb4\xd4j\xc4p\xab\x1d\xa6`\t\xe99\xf3\xa3\x88\xea\x1e\x18\xe5\xea\x02g\\~\x9e\xb3J\xd79\x8d\x97,h\x10\x06\xf3\"P\xa3\xde2e\x15z\xc6ѻ\x1b\xd6d\x1b\xc2i\v\xa3\xa5\a\xc7~\xf1m\x04\x93̇}!#\xc0\xae,\x86nO\x909\xef\xbd\x00\xba\xa2\xfa\xe4\x80\xe7\xf3\xa6\xa9\xed\x84Gh_zp\x9bq\xa5\x98\xe9\x16\xb3\x9e\xa6\xecy!wK\nE\xb4oPZ\xd7\x1a\v\xc2\xf2\x8f\n\\)\xbf\x96\xda\b/T\xa8\xa1")) // a cursor past the end of the standalone stream
	f.Add([]byte("w\xfawrn\x00p\x01w\xff\xff\x00p\x02"))                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                        // a cursor past the end, of a client that is not primed
	f.Fuzz(func(t *testing.T, play []byte) {
		if len(play) > 200 {
			return // longer ones find nothing new, and take long
		}
		kit.Bubble(t, func(t *testing.T) { newPlay(t, play).perform() })
	})
}

type fuzzPlay struct {
	t       lean
	script  []byte
	server  *rejoin.Server
	actors  []*actor
	calls   []*playedCall
	conns   []*playedConn
	asked   []*int // how often each question was answered
	counter int    // numbers the marks
}

// actor is a client with its session.
type actor struct {
	version, id string
	session     *rejoin.Session
	gone        bool
	told        []string // the marks of messages on the standalone stream
}

func (a *actor) polls() bool { return a.version == kit.Polling }

type playedCall struct {
	*rejoin.Call
	actor     *actor
	post      *playedConn
	told      []string // the marks of its messages
	result    string   // the mark of its response; "": none was accepted
	cancelled bool
}

// playedConn is a request with its answer.
type playedConn struct {
	*fuzzAnswer
	actor  *actor
	cursor string
	get    bool
	cut    bool
	cancel context.CancelFunc
}

// newPlay makes the server that the first byte selects, and a client.
func newPlay(t *testing.T, script []byte) *fuzzPlay {
	p := &fuzzPlay{t: lean{t}, script: script}
	policy := rejoin.Policy{AbandonAfter: -1, Retain: -1}
	setting := p.next()
	if setting&1 != 0 {
		policy.Mode = rejoin.ModeSSE
	}
	if setting&8 != 0 {
		policy.CloseAfter = 300 * time.Millisecond
	}
	p.server = kit.NewServer(t, &kit.Fake{
		OnOpen:    p.open,
		OnRequest: p.request,
	}, rejoin.Config{Logger: kit.QuietLogger(), SessionIdleTTL: -1, Policy: policy, MaxConcurrent: 5})
	p.initialize([]string{kit.Polling, kit.Polling, kit.Legacy, kit.Batches}[setting>>1&3])
	return p
}

func (p *fuzzPlay) next() (b byte) {
	if len(p.script) > 0 {
		b, p.script = p.script[0], p.script[1:]
	}
	return b
}

func (p *fuzzPlay) mark() string {
	p.counter++
	return fmt.Sprintf("mark%dx", p.counter)
}

// open is App.Open. initialize waits for it, so the session belongs to the newest actor.
func (p *fuzzPlay) open(_ *http.Request, s *rejoin.Session) (rejoin.AppSession, error) {
	p.actors[len(p.actors)-1].session = s
	return &kit.Fake{OnRequest: p.request}, nil
}

func (p *fuzzPlay) request(c *rejoin.Call) {
	if c.Method() == "initialize" {
		kit.Accept(c)
		return
	}
	p.calls = append(p.calls, &playedCall{Call: c})
}

func (p *fuzzPlay) initialize(version string) {
	a := &actor{version: version}
	p.actors = append(p.actors, a)
	conn := p.send(a, http.MethodPost, strings.Replace(kit.Initialize, kit.Polling, version, 1), "", "")
	a.id = conn.Head.Get("Mcp-Session-Id")
	require.NotEmpty(p.t, a.id)
}

// send serves a request.
func (p *fuzzPlay) send(a *actor, method, body, accept, cursor string) *playedConn {
	h := http.Header{"Content-Type": {"application/json"}}
	for name, value := range map[string]string{"Mcp-Session-Id": a.id, "Accept": accept, "Last-Event-Id": cursor} {
		if value != "" {
			h[name] = []string{value}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := (&http.Request{Method: method, Header: h, Host: "localhost", Body: http.NoBody}).WithContext(ctx)
	if body != "" {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
	conn := &playedConn{actor: a, cursor: cursor, get: method == http.MethodGet, cancel: cancel}
	p.conns = append(p.conns, conn)
	before := len(p.calls)
	conn.fuzzAnswer = &fuzzAnswer{kit.Serve(p.server, r), a.polls()}
	for _, c := range p.calls[before:] {
		c.actor, c.post = a, conn
	}
	return conn
}

// pick returns an element of a list, counted from its end; nil if the list is empty.
func pick[T any](list []T, n byte) (one T) {
	if len(list) > 0 {
		one = list[len(list)-1-int(n)%len(list)]
	}
	return one
}

// acts are the letters of the actions. Every other byte stands for one of them.
const acts = "IwecbtigpxDAnkKraqs"

// perform runs the script, then ends everything that still runs.
func (p *fuzzPlay) perform() {
	for len(p.script) > 0 {
		what, arg := p.next(), p.next()
		if strings.IndexByte(acts, what) < 0 {
			what = acts[int(what)%len(acts)]
		}
		switch what {
		case 'I':
			if len(p.actors) < 3 {
				p.initialize([]string{kit.Polling, kit.Batches, kit.Legacy}[arg%3])
			}
		case 'w':
			kit.Elapse(time.Duration(arg) * 5 * time.Millisecond)
		case 'e':
			p.allAnswered()
		default:
			if !p.clientDoes(what, arg) {
				p.toolDoes(what, arg)
			}
		}
		synctest.Wait()
	}
	p.finale()
}

// clientDoes performs an action of a client. It returns false if what is not one.
func (p *fuzzPlay) clientDoes(what, arg byte) bool {
	a := pick(p.actors, arg>>6)
	form := []string{"", "text/event-stream", "application/json", ""}[arg>>4&3]
	request := func(n byte) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"x"}`, n) }
	switch what {
	case 'c':
		p.send(a, http.MethodPost, request(arg&7), form, "")
	case 'b':
		p.send(a, http.MethodPost, "["+request(arg&3)+","+request(arg>>2&3)+`,{"jsonrpc":"2.0","method":"notifications/x"}]`, form, "")
	case 't':
		p.send(a, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "", "")
	case 'i':
		if c := pick(p.calls, arg); c != nil {
			c.cancelled = true
			p.send(c.actor, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+string(c.ID())+`}}`, "", "")
		}
	case 'g':
		p.send(a, http.MethodGet, "", "", "")
	case 'p':
		if conn := pick(p.conns, arg&7); conn != nil {
			cursor := pick(eventIDsIn(conn.text()), arg>>3&7)
			if arg>>6 == 3 {
				cursor += "1" // another sequence or nonce
			}
			p.send(conn.actor, http.MethodGet, "", "", cursor)
		}
	case 'x':
		if conn := pick(p.conns, arg); !conn.Ended {
			conn.cut = true
			conn.cancel()
		}
	case 'D':
		p.send(a, http.MethodDelete, "", "", "")
		a.gone = true
	case 'A':
		p.answerQuestion(pick(p.conns, arg))
	default:
		return false
	}
	return true
}

// answerQuestion answers the last question that a connection brought.
func (p *fuzzPlay) answerQuestion(conn *playedConn) {
	text := conn.text()
	i := strings.LastIndex(text, `"method":"roots/list"`)
	if i < 0 {
		return
	}
	head := text[:i]
	_, id, _ := strings.Cut(head[strings.LastIndex(head, "data: "):], `"id":`)
	p.send(conn.actor, http.MethodPost, `{"jsonrpc":"2.0","id":`+strings.TrimSuffix(id, ",")+`,"result":{}}`, "", "")
}

// toolDoes performs an action of a tool.
func (p *fuzzPlay) toolDoes(what, arg byte) {
	if what == 's' { // outside of calls
		a := pick(p.actors, arg)
		mark := p.mark()
		if a.session.Notify(context.Background(), "notifications/told", json.RawMessage(`{"text":"`+mark+`"}`)) == nil {
			a.told = append(a.told, mark)
		}
		return
	}
	c := pick(p.calls, arg)
	if c == nil {
		return
	}
	switch what {
	case 'n':
		if mark := p.mark(); c.Handle().Notify("notifications/told", map[string]string{"text": mark}) == nil && c.result == "" && !c.cancelled {
			c.told = append(c.told, mark)
		}
	case 'k':
		_ = c.Handle().CloseStream(time.Duration(arg>>6) * time.Second)
	case 'K':
		_ = c.Handle().CloseStandaloneStream(0)
	case 'r':
		p.reply(c)
	case 'a', 'q':
		n := new(int)
		p.asked = append(p.asked, n)
		ctx := c.Context()
		if what == 'q' {
			ctx = context.Background()
		}
		c.Handle().Session().AskFunc(ctx, "roots/list", nil, func(json.RawMessage, error) { *n++ })
	}
}

func (p *fuzzPlay) reply(c *playedCall) {
	if mark := p.mark(); c.Reply(json.RawMessage(`"`+mark+`"`)) == nil {
		c.result = mark
	}
}

func (p *fuzzPlay) allAnswered() {
	for _, c := range p.calls {
		p.reply(c)
	}
}
