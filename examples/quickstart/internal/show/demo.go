package show

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// The eras of the demo's client.
const (
	legacy = "legacy"
	modern = "modern"
)

// demo runs the server and a client in one process, with real HTTP between them, and prints what the client receives.
func demo(ctx context.Context, ln net.Listener, mount Mount, era string, w io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("not done within 30 s"))
	defer cancel()
	url := "http://" + ln.Addr().String() + "/mcp"
	title, column, play := "one tool call that outlives its connections", "event id", playPolls
	if era == modern {
		title, column, play = "one tool call that outlives its request, as a task", "task", playTask
	}
	t := newTimeline(w, "rejoin quickstart: "+title+", at "+url, column)

	srv, handler, err := newServer(mount, t.work)
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	hosted := make(chan error, 1)
	go func() { hosted <- host(serving, ln, handler, srv) }()

	summary, err := play(ctx, url, t)
	srv.Close() // if the client failed, the server has nothing to wait for
	stop()
	if err := errors.Join(err, <-hosted); err != nil {
		return err
	}
	t.Text(summary)
	return nil
}

// playPolls is the demo of a client that polls.
func playPolls(ctx context.Context, url string, t *timeline) (summary string, err error) {
	c := &client{url: url, see: t}
	got, err := c.run(ctx, defaultSteps)
	if err == nil {
		err = check(got, defaultSteps)
	}
	return fmt.Sprintf("%d messages over %d connections: each came once, in order.", len(got), c.connections), err
}

// playTask is the demo of a client that takes tasks.
func playTask(ctx context.Context, url string, t *timeline) (summary string, err error) {
	c := &taskClient{url: url, see: t}
	err = c.run(ctx, defaultSteps)
	return fmt.Sprintf("%d messages on the connection of the call, then %d polls of its task: the last one had the result.", c.live, c.polls), err
}

// work is a step of the tool in the demo. It takes a while, and tells the timeline if the client was disconnected.
func (t *timeline) work(ctx context.Context, step int) error {
	if err := pause(ctx, pace); err != nil {
		return err
	}
	h := rejoin.HandleFromContext(ctx)
	if step%3 == 0 { // the client must be connected, also on a slow machine, so that it can be disconnected
		if err := h.WaitConnected(ctx); err != nil && !errors.Is(err, rejoin.ErrNoStream) { // a task has no connection
			return err
		}
	}
	if !h.Connected() {
		t.away(step)
	}
	return nil
}
