package subject

import (
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
)

// The names of the bases.
const (
	bareJSON  = "bare-json"
	bareSSE   = "bare-sse"
	bareStore = "bare-sse-store"
)

// All returns every subject, bases first.
func All() []Subject { return slices.Clone(all) }

// Find returns the subject of that name.
func Find(name string) (Subject, bool) {
	for _, s := range all {
		if s.Name == name {
			return s, true
		}
	}
	return Subject{}, false
}

var all = slices.Concat(bases, rejoins, clustered, forwarding, overRedis, goSDKs, mcpGos, bridged, moderns)

var bases = []Subject{
	{
		Name: "null", Base: bareJSON, New: newNull,
		Notes: "net/http alone: reads the body, finds the id and the text in it by searching, writes bytes. Decodes and checks nothing.",
	},
	{
		Name: bareJSON, Base: bareJSON, Session: true, New: newBare(false, false),
		Notes: "Written by hand with encoding/json. Cancellations are ignored. The progress of a burst has no stream, and is not sent.",
	},
	{
		Name: bareSSE, Base: bareSSE, Stream: true, Primes: true, Session: true, New: newBare(true, false),
		Notes: "Written by hand. The primer is flushed alone, the answer is sent with the end of the response. Keeps nothing.",
	},
	{
		Name: bareStore, Base: bareStore, Stream: true, Primes: true, Stores: true, Closes: true, Session: true, New: newBare(true, true),
		Notes: "Written by hand. Keeps the last 64 finished streams of each session, without a limit in bytes. burst and hold run in goroutines " +
			"of their own, echo in the request's. A replay is flushed when it has caught up, live events after each one.",
	},
}

var rejoins = []Subject{
	{
		Name: "rejoin-json", Base: bareJSON, Primes: true, Stores: true, Closes: true, Session: true, New: newRejoin(rejoin.ModeAuto, ownApp),
		Notes: "rejoin.NewApp on net/http, Policy.Mode Auto: JSON, or a stored, primed stream if something must be sent first.",
	},
	{
		Name: "rejoin-sse", Base: bareStore, Stream: true, Primes: true, Stores: true, Closes: true, Session: true, New: newRejoin(rejoin.ModeSSE, ownApp),
		Notes: "rejoin.NewApp on net/http, Policy.Mode SSE, the default memory store: stored and primed. hold with close disconnects its client " +
			"a millisecond after each poll (Policy.CloseAfter of the call).",
	},
	{
		Name: "rejoin-chi", Base: bareJSON, Primes: true, Stores: true, Closes: true, Session: true, New: newRejoinChi,
		Notes: "rejoin-json on chi.",
	},
	{
		Name: "rejoin-echo", Base: bareJSON, Primes: true, Stores: true, Closes: true, Session: true, New: newRejoinEcho,
		Notes: "rejoin-json on echo.",
	},
	{
		Name: "rejoin-gin", Base: bareJSON, Primes: true, Stores: true, Closes: true, Session: true, New: newRejoinGin,
		Notes: "rejoin-json on gin, in release mode.",
	},
}

var goSDKs = bothWays([]Subject{
	{
		Name: "gosdk-json", Base: bareJSON, Session: true,
		Notes: "go-sdk, JSONResponse, no event store. It refuses to send the progress of a burst, so the call fails.",
	},
	{
		Name: "gosdk-sse", Base: bareSSE, Stream: true, Session: true,
		Notes: "go-sdk without an event store, so without a primer.",
	},
	{
		Name: "gosdk-sse-store", Base: bareStore, Stream: true, Primes: true, Stores: true, Closes: true, Session: true,
		Notes: "go-sdk with MemoryEventStore, of 10 MiB unless the scenario names a size. A resume gets no head before its first event, " +
			"and DELETE waits for running calls.",
	},
	{
		Name: "gosdk-stateless-json", Base: bareJSON,
		Notes: "go-sdk, Stateless, JSONResponse: a session for each request.",
	},
}, func(s Subject, raw bool) Subject {
	s.New = newGoSDK(raw, s.Stores, mcp.StreamableHTTPOptions{JSONResponse: !s.Stream, Stateless: !s.Session})
	return s
})

// bothWays lists each subject with typed and with raw tools.
func bothWays(subjects []Subject, with func(s Subject, raw bool) Subject) (all []Subject) {
	for _, s := range subjects {
		typed, raw := s, s
		raw.Name += "-raw"
		raw.Notes = s.Name + " with raw tools."
		all = append(all, with(typed, false), with(raw, true))
	}
	return all
}

const (
	mcpGoLoses  = " It loses the notification that waits when the tool returns."
	mcpGoSpeaks = " echo first sends one notification; otherwise mcp-go answers JSON."
)

var mcpGos = []Subject{
	{
		Name: "mcpgo-json", Base: bareJSON, Session: true, New: newMCPGo(false, false, true),
		Notes: "mcp-go, WithStateful, no event store: JSON unless a tool notifies." + mcpGoLoses,
	},
	{
		Name: "mcpgo-stateless", Base: bareJSON, New: newMCPGo(false, false, false),
		Notes: "mcp-go, WithStateLess: JSON unless a tool notifies." + mcpGoLoses,
	},
	{
		Name: "mcpgo-sse", Base: bareSSE, Stream: true, Session: true, New: newMCPGo(true, false, true),
		Notes: "mcp-go, WithStateful, no event store, no primer." + mcpGoSpeaks + mcpGoLoses,
	},
	{
		Name: "mcpgo-sse-store", Base: bareStore, Stream: true, Stores: true, Session: true, New: newMCPGo(true, true, true),
		Notes: "mcp-go, WithStateful, InMemoryEventStore, which has no limit. No primer, and no way to disconnect a client." + mcpGoSpeaks,
	},
}

var bridged = append(bothWays([]Subject{
	{
		Name: "rejoin-gosdk-json", Base: bareJSON, Primes: true, Stores: true, Closes: true, Session: true,
		Notes: "The server of gosdk-json behind rejoin: Policy.Mode Auto.",
	},
	{
		Name: "rejoin-gosdk-sse", Base: bareStore, Stream: true, Primes: true, Stores: true, Closes: true, Session: true,
		Notes: "The server of gosdk-sse-store behind rejoin: Policy.Mode SSE, the default memory store.",
	},
}, func(s Subject, raw bool) Subject {
	s.New = newRejoin(modeOf(s), goSDKApp(raw))
	return s
}), []Subject{
	{
		Name: "rejoin-mcpgo-json", Base: bareJSON, Primes: true, Stores: true, Closes: true, Session: true, New: newRejoin(rejoin.ModeAuto, mcpGoApp(false)),
		Notes: "The server of mcpgo-json behind rejoin: Policy.Mode Auto.",
	},
	{
		Name: "rejoin-mcpgo-sse", Base: bareStore, Stream: true, Primes: true, Stores: true, Closes: true, Session: true,
		New:   newRejoin(rejoin.ModeSSE, mcpGoApp(true)),
		Notes: "The server of mcpgo-sse-store behind rejoin: Policy.Mode SSE, the default memory store." + mcpGoSpeaks,
	},
}...)

func modeOf(s Subject) rejoin.Mode {
	if s.Stream {
		return rejoin.ModeSSE
	}
	return rejoin.ModeAuto
}
