package snippets_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

func exporter() rejoin.App {
	export := func(ctx context.Context, _ *rejoin.Request) (any, error) {
		h := rejoin.HandleFromContext(ctx)
		for step := range 3 {
			select {
			case <-time.After(time.Minute): // a long job
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			if err := h.Progress(float64(step+1), 3, ""); err != nil {
				return nil, err
			}
			_ = h.CloseStream(30 * time.Second) // an error means only that the client stays connected
		}
		return rejoin.Text("exported"), nil
	}
	return rejoin.NewToolApp(rejoin.Info{Name: "exporter", Version: "1.0"}, rejoin.Tool{Name: "export", Run: export})
}

// A tool that lets its client go.
func TestExportLetsItsClientGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rejointest.New(t, exporter(), rejointest.Config{})
		call := c.CallTool("export", nil)
		if retry := call.WaitClosed(); retry < 30*time.Second || retry > 36*time.Second { // up to a fifth more, at random
			t.Errorf("the client is told to come back after %v", retry)
		}
		<-time.After(5 * time.Minute) // it is late: the tool has long returned
		call.Poll()
		if n := len(call.Messages()); n != 4 { // three times progress, and the response
			t.Errorf("%d messages", n)
		}
		if got := string(call.Result()); got != string(rejoin.Text("exported")) {
			t.Errorf("result: %s", got)
		}
	})
}

// A tool that knows nothing of polling.
func TestExportKnowsNothingOfPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rejointest.New(t, exporter(), rejointest.Config{
			Server: rejoin.Config{Policy: rejoin.Policy{CloseAfter: 50 * time.Second}},
		})
		call := c.CallTool("export", nil)
		began := time.Now()
		call.WaitClosed()
		if open := time.Since(began); open != 50*time.Second {
			t.Errorf("the connection was open for %v", open)
		}
		call.Poll()
		call.Cut() // the network, this time
		if got := string(call.Result()); got != string(rejoin.Text("exported")) {
			t.Errorf("result: %s", got)
		}
	})
}

// A client that never polls.
func TestExportOutlivesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rejointest.New(t, exporter(), rejointest.Config{
			Server:  rejoin.Config{Policy: rejoin.Policy{AbandonAfter: 10 * time.Second}},
			Version: "2025-11-25", // or an older one, whose clients are never disconnected
		})
		call := c.CallTool("export", nil)
		call.Cut()
		<-time.After(time.Minute)
		if n := c.Server().Stats().Abandoned; n != 1 {
			t.Errorf("%d calls were given up", n)
		}
	})
}

// A process is lost while a tool runs in it.
func TestExportLosesItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := rejointest.NewCluster(t, exporter, rejointest.Config{})
		c := cluster.NewClient()
		call := c.CallTool("export", nil)
		call.WaitMessages(1) // it runs
		c.Owner().Kill()
		if e := call.Err(); e.Reason() != rejoin.ReasonOwnerLost {
			t.Errorf("the client got %v", e)
		}
		again := c.CallTool("export", nil) // the session goes on in another process
		if got := string(again.Result()); got != string(rejoin.Text("exported")) {
			t.Errorf("result: %s", got)
		}
	})
}

// A deploy while a tool runs.
func TestExportSurvivesADeploy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := rejointest.NewCluster(t, exporter, rejointest.Config{})
		c := cluster.NewClient()
		call := c.CallTool("export", nil)
		for _, old := range cluster.Processes() {
			cluster.Start() // the new version
			old.Shutdown(10 * time.Minute)
			if err := old.Wait(); err != nil { // a *rejoin.DrainError: the grace was too short
				t.Error(err)
			}
		}
		if got := string(call.Result()); got != string(rejoin.Text("exported")) {
			t.Errorf("result: %s", got)
		}
	})
}
