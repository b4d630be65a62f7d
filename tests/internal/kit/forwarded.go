package kit

import (
	"flag"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

var forwarded = flag.Bool("forwarded", false, "every request of a session goes to another process than its owner, which forwards it")

// alone are tests, or parts of their names, that are about a server by itself: with -forwarded they say something else, and why.
var alone = map[string]string{
	"TestStateTableOnTheWire/Close":              "a session of a cluster outlives Close",
	"TestStateTableOnTheWire/the_end_of_a_drain": "the same",
	"TestADrainWaitsForTasks":                    "a drain of a cluster does not wait for what another process can serve",
	"TestADrainWaitsForAResultUntilItExpires":    "the same",
	"TestADrainThatRunsOutOfTime":                "the same",
	"TestAListenerThatNothingReaches":            "the same",
	"TestAListenerThatTheAppDoesNotAcknowledge":  "the same",
	"TestNothingIsLeftOfTasks":                   "a task of a cluster outlives Close",
	"TestAListenerOfTheAppAlone":                 "the apps of two processes are two",
	"TestAppsThatAreLeftAlone":                   "the same",
	"TestALongCallBecomesATask":                  "in a cluster some letters are added to Config.Node",
	"TestTheTaskOfAnotherPrincipal":              "an id that is unknown is one that a young directory may have lost",
	"TestTakeoverOfAFrozenConnection":            "two connections buffer more than one",
	"TestARefusalWaitsForNoMiddleware":           "the middleware of the owner keeps the connection between the processes busy",
	"TestAStreamWaitsForNoMiddleware":            "the same",
	"TestHowAnAnswerMayBeWritten":                "ids of questions have the name of the process in them",
	"TestAnswersOfOthers":                        "the same",
	"TestQuestionsAreWithdrawnInOrder":           "the same",
	"TestWhatBecomesOfAQuestion":                 "the same",
	"TestIDsOfQuestionsNeverRepeat":              "the same",
	"TestAPlainAnswerIsNotRecorded":              "Stats counts what was forwarded",
	"TestAnIDInFlightIsRefused":                  "the same",
}

// New is rejointest.New. With the flag -forwarded, the server is the owner of all sessions in a cluster of two processes, and what the client sends
// goes through the other one. Both have the router and the time-outs of the configuration.
func New(t *testing.T, app rejoin.App, cfg rejointest.Config) *rejointest.Client {
	t.Helper()
	if *forwarded && cfg.Server.Store == nil && cfg.Server.Cluster == nil {
		for name := range alone {
			if strings.HasPrefix(t.Name(), name) {
				return rejointest.New(t, app, cfg)
			}
		}
		forward(t, &cfg)
	}
	return rejointest.New(t, app, cfg)
}

func forward(t *testing.T, cfg *rejointest.Config) {
	t.Helper()
	network := NewNetwork(t)
	engine := cluster.NewMemory(eventstore.MemoryConfig{})
	of := func(name string) *rejoin.Cluster {
		return &rejoin.Cluster{Name: "test", Self: "http://" + name, Transport: network.Transport(name)}
	}
	mount, other := cfg.Handler, cfg.Server
	if mount == nil {
		mount = stdadapter.New
	}
	cfg.Server.Store, cfg.Server.Cluster = engine, of("owner")
	other.Store, other.Cluster, other.Logger = engine, of("other"), slog.New(slog.DiscardHandler)
	cfg.Handler = func(owner *rejoin.Server) http.Handler {
		unused, _ := ManualTools()
		s, err := rejoin.NewServer(unused, other)
		require.NoError(t, err)
		t.Cleanup(s.Close)
		synctest.Wait() // both join
		own, through := mount(owner), mount(s)
		network.Serve("owner", own, cfg.HTTP)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if method := r.Header.Get("Mcp-Method"); method != "" && !isAboutTasks(method) || method == "" && r.Header.Get("Mcp-Session-Id") == "" {
				own.ServeHTTP(w, r)
				return
			}
			through.ServeHTTP(w, r)
		})
	}
}

// isAboutTasks reports whether a request of the modern era is about tasks that exist already.
func isAboutTasks(method string) bool {
	return strings.HasPrefix(method, "tasks/") || method == "subscriptions/listen"
}
