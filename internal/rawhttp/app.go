package rawhttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
)

// NewSubject returns a server with an app behind it. Its logger writes to logged. held returns what the app still holds, "" for nothing; nil
// means that it never holds anything.
func NewSubject(t testing.TB, app rejoin.App, cfg rejoin.Config, logged *Log, held func() string) Subject {
	t.Helper()
	cfg.Logger = logged.Logger()
	shortTasks(&cfg)
	srv, err := rejoin.NewServer(app, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	return Subject{
		Handler: stdadapter.New(srv), Logged: logged,
		EndSessions: func() {
			for info := range srv.Sessions() {
				if err := srv.EndSession(info.Ref); err != nil {
					t.Error(err)
				}
			}
		},
		Left: func() string {
			now, app := srv.Stats(), ""
			if held != nil {
				app = held()
			}
			gauges := rejoin.Stats{Sessions: now.Sessions, Streams: now.Streams, Connections: now.Connections, Parked: now.Parked, StoredBytes: now.StoredBytes, Tasks: now.Tasks}
			if gauges != (rejoin.Stats{}) || app != "" {
				return fmt.Sprintf("%+v %s", gauges, app)
			}
			return ""
		},
	}
}

// shortTasks makes tasks soon, and ends them before a script's end is checked, although nobody asks for them any more.
func shortTasks(cfg *rejoin.Config) {
	cfg.Policy.TaskAfter = time.Second
	cfg.Tasks.TTL = 5 * time.Second
	cfg.PolicyFor = func(r rejoin.RequestInfo, p rejoin.Policy) rejoin.Policy {
		if r.Tasks {
			p.AbandonAfter = 25 * time.Second
		}
		return p
	}
}

// The settings of FuzzApp's second argument.
const (
	modeSSE = 1 << iota
	eraLegacy
)

// FuzzApp is the fuzz target of an app: it plays scripts to a server with the app behind it. The target's second argument has a bit for mode
// SSE, and one that leaves the modern era out. newApp returns an app that logs to a logger, and the function held of NewSubject.
func FuzzApp(f *testing.F, newApp func(*slog.Logger) (app rejoin.App, held func() string)) {
	f.Helper()
	for _, script := range Seeds() {
		f.Add([]byte(script), uint8(0))
		f.Add([]byte(script), uint8(modeSSE|eraLegacy))
	}
	f.Fuzz(func(t *testing.T, script []byte, settings uint8) {
		synctest.Test(t, func(t *testing.T) {
			logged := &Log{}
			app, held := newApp(logged.Logger())
			cfg := rejoin.Config{MaxBodyBytes: 8 << 10}
			if settings&modeSSE != 0 {
				cfg.Policy.Mode = rejoin.ModeSSE
			}
			if settings&eraLegacy == 0 && hasModern(app) {
				cfg.Eras = rejoin.EraBoth
			}
			Play(t, NewSubject(t, app, cfg, logged, held), script)
		})
	})
}

// hasModern reports whether an app serves the modern era: with an older SDK a bridge does not.
func hasModern(app rejoin.App) bool {
	modern, ok := app.(rejoin.ModernApp)
	return ok && modern.Modern() != nil
}

// Sender sends messages of a tool's call to the client, in the way of an SDK.
type Sender struct {
	Progress func(ctx context.Context, message string) // if the call has a token
	Log      func(ctx context.Context, message string)
}

// Message is what tools say: it has what HTTP, a stream of events and JSON must escape.
const Message = "a\u2028\r\n\x00"

// Tools are the tools that the scripts call, but for two that differ between the SDKs: "nothing", whose result is nil, and "ask", which asks
// the user. Each returns the text of its result.
var Tools = map[string]func(context.Context, Sender) (string, error){
	"quick": func(ctx context.Context, _ Sender) (string, error) { return "done", ctx.Err() },
	"fail":  func(context.Context, Sender) (string, error) { return "", errors.New("it fails") },
	"log": func(ctx context.Context, s Sender) (string, error) {
		s.Log(ctx, "x")
		return "done", ctx.Err()
	},
	"progress": func(ctx context.Context, s Sender) (string, error) {
		for range 3 {
			s.Progress(ctx, Message)
			<-time.After(60 * time.Millisecond)
		}
		return "done", ctx.Err()
	},
	"poll": func(ctx context.Context, s Sender) (string, error) {
		s.Progress(ctx, Message)
		_ = rejoin.HandleFromContext(ctx).CloseStream(0) // some clients cannot poll
		s.Progress(ctx, Message)
		select {
		case <-ctx.Done():
		case <-time.After(3 * time.Second):
		}
		s.Progress(ctx, Message)
		return "done", ctx.Err()
	},
	"block": func(ctx context.Context, s Sender) (string, error) {
		s.Progress(ctx, Message)
		<-ctx.Done()
		return "", ctx.Err()
	},
}
