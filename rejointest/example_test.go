package rejointest_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// app has one tool: it exports rows for some minutes, lets its client go when half is done, and says where the file is.
func app() rejoin.App {
	return rejoin.NewApp(rejoin.Info{Name: "exports", Version: "1"}, func(ctx context.Context, r *rejoin.Request) (any, error) {
		h := rejoin.HandleFromContext(ctx)
		_ = h.Progress(0, 1000, "started") // nothing to do if it cannot be sent
		<-time.After(5 * time.Minute)
		_ = h.Progress(500, 1000, "half")
		_ = h.CloseStream(5 * time.Minute)
		<-time.After(5 * time.Minute)
		return map[string]string{"url": "https://example.com/1000"}, nil
	})
}

func TestExportSurvivesAProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rejointest.New(t, app(), rejointest.Config{})
		call := c.CallTool("export", map[string]any{"rows": 1000})
		call.WaitMessages(1) // progress
		call.Cut()           // the proxy has had enough
		<-time.After(time.Minute)
		call.Poll() // the client is back
		call.WaitMessages(2)
		retry := call.WaitClosed() // the tool lets its client go
		if retry < 5*time.Minute {
			t.Errorf("back after %v already", retry)
		}
		if got := string(call.Result()); got != `{"url":"https://example.com/1000"}` {
			t.Errorf("result: %s", got)
		}
	})
}

func TestExportSurvivesADeploy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := rejointest.NewCluster(t, app, rejointest.Config{})
		c := cluster.NewClient()
		call := c.CallTool("export", map[string]any{"rows": 1000})
		owner := c.Owner() // the process that runs it
		cluster.Start()    // the new version
		owner.Shutdown(15 * time.Minute)
		if got := string(call.Result()); got != `{"url":"https://example.com/1000"}` {
			t.Errorf("result: %s", got)
		}
		if err := owner.Wait(); err != nil {
			t.Errorf("the old version has ended with %v", err)
		}
	})
}

func TestTheDocumentedTestsAreThese(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	code, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	for _, name := range []string{"func TestExportSurvivesAProxy", "func TestExportSurvivesADeploy"} {
		_, want, ok := strings.Cut(string(code), name)
		require.True(t, ok)
		want, _, ok = strings.Cut(name+want, "\n}\n")
		require.True(t, ok)
		require.Contains(t, string(doc), "//\t"+strings.ReplaceAll(want+"\n}", "\n", "\n//\t"))
	}
}
