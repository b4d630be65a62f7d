package subject

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	"github.com/rejoin-mcp/rejoin"
	chiadapter "github.com/rejoin-mcp/rejoin/adapters/chi"
	echoadapter "github.com/rejoin-mcp/rejoin/adapters/echo"
	ginadapter "github.com/rejoin-mcp/rejoin/adapters/gin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// newRejoin serves app on net/http.
func newRejoin(mode rejoin.Mode, app func(Options) rejoin.App) func(Options) (http.Handler, error) {
	return func(o Options) (http.Handler, error) {
		s, err := rejoinServer(mode, app(o), o)
		if err != nil {
			return nil, err
		}
		mux := http.NewServeMux()
		stdadapter.Register(mux, Path, s)
		return mux, nil
	}
}

// rejoinServer has the defaults, except for limits that the peers do not have and that the scenarios exceed.
func rejoinServer(mode rejoin.Mode, app rejoin.App, o Options) (*rejoin.Server, error) {
	cfg := rejoinConfig(mode)
	if o.StoreBytes > 0 {
		cfg.Store = eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: o.StoreBytes, TotalBytes: o.StoreBytes})
	}
	return rejoin.NewServer(app, cfg)
}

func rejoinConfig(mode rejoin.Mode) rejoin.Config {
	return rejoin.Config{
		Policy: rejoin.Policy{Mode: mode}, MaxSessions: -1, MaxConcurrent: -1, Tasks: rejoin.Tasks{Max: -1}, Logger: discardLogger(),
	}
}

func newRejoinChi(o Options) (http.Handler, error) {
	s, err := rejoinServer(rejoin.ModeAuto, ownApp(o), o)
	if err != nil {
		return nil, err
	}
	r := chi.NewRouter()
	chiadapter.Register(r, Path, s)
	return r, nil
}

func newRejoinEcho(o Options) (http.Handler, error) {
	s, err := rejoinServer(rejoin.ModeAuto, ownApp(o), o)
	if err != nil {
		return nil, err
	}
	e := echo.New()
	echoadapter.Register(e, Path, s)
	return e, nil
}

func newRejoinGin(o Options) (http.Handler, error) {
	s, err := rejoinServer(rejoin.ModeAuto, ownApp(o), o)
	if err != nil {
		return nil, err
	}
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	ginadapter.Register(e, Path, s)
	return e, nil
}

// ownApp is an app of rejoin's own. It decodes arguments into the types that bare uses, and encodes the same results. rejoin has parsed the
// message around them.
func ownApp(o Options) rejoin.App {
	info := rejoin.Info{Name: serverName, Version: serverVersion, Capabilities: map[string]any{"tools": struct{}{}}}
	return rejoin.NewApp(info, (&ownHandler{o.Gate}).handle)
}

type ownHandler struct{ gate *Gate }

func (h *ownHandler) handle(ctx context.Context, r *rejoin.Request) (any, error) {
	switch r.Method {
	case "tools/call":
		return h.call(ctx, r)
	case "tools/list":
		return tools, nil
	}
	return nil, rejoin.Errorf(rejoin.CodeMethodNotFound, "unknown method %s", r.Method)
}

func (h *ownHandler) call(ctx context.Context, r *rejoin.Request) (any, error) {
	name := r.Name()
	switch name {
	case Echo:
		var args echoArgs
		if err := r.BindArguments(&args); err != nil {
			return nil, err
		}
		return textResult(args.Text), nil
	case Burst:
		var args burstArgs
		if err := r.BindArguments(&args); err != nil {
			return nil, err
		}
		return burst(ctx, args)
	case Hold:
		var args holdArgs
		if err := r.BindArguments(&args); err != nil {
			return nil, err
		}
		if args.Close {
			_ = closeStream(ctx)
			// Without this a client that polls too early would stay connected.
			_ = rejoin.HandleFromContext(ctx).SetPolicy(rejoin.Policy{CloseAfter: time.Millisecond})
		}
		select {
		case <-h.gate.Done():
			return textResult(holdAnswer + args.Text), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return nil, invalid(unknownTool(name))
}

func burst(ctx context.Context, args burstArgs) (any, error) {
	if args.Close {
		_ = closeStream(ctx)
	}
	handle := rejoin.HandleFromContext(ctx)
	for i := range args.N {
		if err := handle.Progress(float64(i+1), float64(args.N), stepMessage); err != nil {
			return nil, err // if the store is full, the scenario should ask for a larger one
		}
	}
	return textResult(burstAnswer), nil
}

// closeStream disconnects a tool's client, if it can poll, or makes the call a task. Most tools ignore the error: it has no effect otherwise.
func closeStream(ctx context.Context) error {
	return rejoin.HandleFromContext(ctx).CloseStream(retryMillis * time.Millisecond)
}

func invalid(err error) error { return rejoin.Errorf(rejoin.CodeInvalidParams, "%s", err) }
