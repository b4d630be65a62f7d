package adoptions

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/rejoin-mcp/rejoin"
)

// SDK is an SDK behind its bridge.
type SDK struct {
	// New makes a server with tools, whose clients can subscribe to any resource. It is called for each process.
	New func(log *slog.Logger, tools map[string]Tool) Server
}

// Server is a server of the SDK.
type Server struct {
	App     rejoin.App
	AddTool func(name string) // so that clients are told that the list of tools has changed
	Updated func(uri string)  // tells the sessions that are subscribed to a resource
	// Sessions counts the sessions that the SDK has.
	Sessions func() int
}

// Tool is the handler of a tool. The bridge's test runs it in a tool of the SDK.
type Tool func(context.Context, Call) (string, error)

// Call is what a tool can do through its SDK.
type Call struct {
	Log    func(level, text string) error       // sends a log message, unless the session's level is higher
	Elicit func(message string) (string, error) // asks the user, who echoes the message
	Sample func(prompt string) (string, error)  // asks the client's model, which echoes the prompt
	Roots  func() (string, error)               // asks for the client's roots, and returns the first
	Close  func() error                         // disconnects the client
	Client func() string                        // what the SDK knows of the client: its name and the version
}

// Run runs all tests.
func Run(t *testing.T, sdk SDK) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"a session goes on", goesOn},
		{"a session of an older version", goesOnOlder},
		{"a result that was not fetched", resultFetched},
		{"a call that ran", ownerLost},
		{"the standalone stream", standalone},
		{"the first request", firstRequests},
		{"initialized", initialized},
		{"what is promised is saved", promises},
		{"a save that fails", saveFails},
		{"a save that fails, and then the owner", saveFailsForGood},
		{"a save that fails, and other calls", othersGoOn},
		{"initialize that cannot be recorded", notRecorded},
		{"nothing is left", nothingLeft},
		{"an Open that does not succeed", openFails},
		{"an Open that comes back late, after another one here", openIsLateHere},
		{"an Open that comes back late, after one elsewhere", openIsLateElsewhere},
		{"many parked calls", manyParked},
		{"the adopter dies too", adopterDies},
		{"two adopters at once", adoptersRace},
		{"everything crosses", everythingCrosses},
		{"planned ends", plannedEnds},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test.run(newWorld(t, sdk)) })
		})
	}
}
