package show

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// demo runs the server and a client in one process, with real HTTP between them, and prints what the client receives.
func demo(ctx context.Context, ln net.Listener, mount Mount, w io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("not done within 30 s"))
	defer cancel()
	const steps = defaultSteps
	url := "http://" + ln.Addr().String() + "/mcp"
	t := newTimeline(w, "rejoin quickstart: one tool call that outlives its connections, at "+url)

	srv, handler, err := newServer(mount, t.work)
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	hosted := make(chan error, 1)
	go func() { hosted <- host(serving, ln, handler, srv) }()

	c := &client{url: url, see: t}
	got, err := c.run(ctx, steps)
	if err == nil {
		err = check(got, steps)
	}
	srv.Close() // if the client failed, the server has nothing to wait for
	stop()
	if err := errors.Join(err, <-hosted); err != nil {
		return err
	}
	t.summary(len(got), c.connections)
	return nil
}

// work is a step of the tool in the demo. It takes a while, and tells the timeline if the client was disconnected.
func (t *timeline) work(ctx context.Context, step int) error {
	if err := pause(ctx, pace); err != nil {
		return err
	}
	h := rejoin.HandleFromContext(ctx)
	if step%3 == 0 { // the client must be connected, also on a slow machine, so that it can be disconnected
		if err := h.WaitConnected(ctx); err != nil {
			return err
		}
	}
	if !h.Connected() {
		t.away(step)
	}
	return nil
}
