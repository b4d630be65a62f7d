package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"
)

// Config says how a session behaves. In each field, zero means the default, and negative means off where that makes sense.
type Config struct {
	// HTTP sends the requests; authorization belongs here (golang.org/x/oauth2.NewClient). It must have no Timeout, which would end
	// streams. It is not changed. Redirects to another origin, and those that turn a POST into a GET, are refused whatever its CheckRedirect
	// says. Its Transport must not send a POST twice; http.Transport does not once any byte of it may have been read. Defaults to
	// http.DefaultClient.
	HTTP *http.Client
	// Era is the generation of the protocol that is spoken. Defaults to EraAuto. Resume goes by the token.
	Era Era
	// Name and Version are the client's own, as the server is told. Default to "rejoin" and "0".
	Name, Version string
	// Capabilities are the client's, as the server is told: {"elicitation": struct{}{}}. In the modern era tasks are added; elicitation, sampling
	// and roots are left out if OnRequest is nil.
	Capabilities map[string]any
	// OnRequest answers the requests of the server (sampling, elicitation, roots), on whichever stream they come. Each runs in a goroutine of
	// its own, at most 64 at a time; while there are more, their streams are not read. ctx has the values of the context of the call
	// that the request came with. It ends when the server withdraws the request, or when that call, its stream or the session has ended:
	// return then, since Close waits for it. An *Error is sent to the server as it is. For any other error, and for a panic, the server
	// gets only -32603, and the Logger the rest. A result is marshalled with encoding/json. Pings are answered without OnRequest. If it is
	// nil, all other requests are refused with -32601. A request may come again after Resume. Requests on the standalone stream are
	// received only with OnNotification or Listen.
	//
	// In the modern era such requests come with the answer to a call, or with the state of a task, and cannot be answered with an error: then
	// an elicitation is declined, there are no roots, and at any other request the call is cancelled and ends with ErrUnanswered. ctx also ends
	// when the task no longer asks.
	OnRequest func(ctx context.Context, method string, params json.RawMessage) (any, error)
	// OnNotification gets the notifications that belong to no call, one after the other. If it is set, the session opens the standalone
	// stream and keeps it open until Close, if the server has one; Listen is not needed then. Connect waits for the server's answer to
	// that, two seconds at most. While OnNotification runs, the stream is not read. A panic in it is logged.
	OnNotification func(method string, params json.RawMessage)

	// Backoff is the wait after one attempt that brought nothing. After each further one the wait is twice as long, up to BackoffMax. Backoff
	// is also the wait if the server has sent no retry. If it has, no wait is shorter than that; the Retry-After of a refusal does the same
	// for one wait. After polls that bring an event id and no message the wait grows from 10 ms, which is the least, up to Backoff. Each
	// wait is up to a fifth longer, at random. Default to 1 s and 30 s (or Backoff, if that is more).
	Backoff, BackoffMax time.Duration
	// Attempts is how many attempts in a row may bring nothing before a stream or a task is given up. Such an attempt gets no connection, a transient
	// refusal (408, 409, 425, 429, 5xx but 501 and 505), or an answer that ends without a new event id and without a message. An answer that the
	// server held for BackoffMax, or until IdleTimeout, does not count: a call may be silent for hours. Defaults to 10.
	Attempts int
	// HeaderTimeout is how long the head of an answer may take. A server that answers long calls in plain JSON may need more: when the
	// time is up, the call ends with ErrMayHaveRun. Defaults to 60 s.
	HeaderTimeout time.Duration
	// IdleTimeout is how long a stream that can be resumed may bring no byte, not even a comment. After that it counts as broken and is
	// resumed. A stream without event ids may be silent until its call's context ends. Defaults to 60 s.
	IdleTimeout time.Duration
	// RetryLimit is the longest wait that a server may ask for. If it asks for more, the call ends with ErrRetryTooLong. Defaults to 1 h.
	RetryLimit time.Duration
	// MaxEventBytes bounds one event, an answer in plain JSON, and what waits for Call.Messages (which may be one message more). Defaults to
	// 16 MiB.
	MaxEventBytes int
	// Logger gets what is not returned to a caller: answers that could not be sent, a standalone stream that was given up. Defaults to
	// slog.Default().
	Logger *slog.Logger
	// Trace, if set, is called for everything on the wire, in the order in which it happens on each stream, from several goroutines. It
	// must not block. When it is called with TracePrimer or TraceTask, Call.Token has that id already.
	Trace func(TraceEvent)
}

// resolve fills in the defaults, and returns all that is wrong.
func (c *Config) resolve() (faults []error) {
	c.HTTP = cmp.Or(c.HTTP, http.DefaultClient)
	if c.HTTP.Timeout != 0 {
		faults = append(faults, errors.New("Config.HTTP must have no Timeout, which would end streams: use contexts, HeaderTimeout and IdleTimeout"))
	}
	c.Name, c.Version = cmp.Or(c.Name, "rejoin"), cmp.Or(c.Version, "0")
	c.Backoff = cmp.Or(c.Backoff, time.Second)
	c.BackoffMax = cmp.Or(c.BackoffMax, max(30*time.Second, c.Backoff))
	c.Attempts = cmp.Or(c.Attempts, 10)
	c.HeaderTimeout, c.IdleTimeout = cmp.Or(c.HeaderTimeout, time.Minute), cmp.Or(c.IdleTimeout, time.Minute)
	c.RetryLimit = cmp.Or(c.RetryLimit, time.Hour)
	c.MaxEventBytes = cmp.Or(c.MaxEventBytes, 16<<20)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Era < EraAuto || c.Era > EraModern {
		faults = append(faults, errors.New("Config.Era must be EraAuto, EraLegacy or EraModern"))
	}
	if c.MaxEventBytes < 0 {
		faults = append(faults, errors.New("Config.MaxEventBytes cannot be off"))
	}
	if c.Backoff < 0 || c.BackoffMax < c.Backoff {
		faults = append(faults, errors.New("Config.Backoff must be positive, and BackoffMax not less"))
	}
	return faults
}
