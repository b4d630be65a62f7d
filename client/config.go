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

// Config is how a session behaves. In each field, zero means the default, and negative means off where that makes sense.
type Config struct {
	// HTTP sends the requests; authorization belongs here (golang.org/x/oauth2.NewClient). It must have no Timeout: streams last. It
	// is not changed; redirects to another origin, or that make a GET of a POST, are refused whatever it says. Its Transport must not
	// send a POST twice (http.Transport does not, once anything of it may have been read). Defaults to http.DefaultClient.
	HTTP *http.Client
	// Name and Version are the client's, for initialize. Default to "rejoin" and "0".
	Name, Version string
	// Capabilities are the client's, for initialize: {"elicitation": struct{}{}}.
	Capabilities map[string]any
	// OnRequest answers what the server asks (sampling, elicitation, roots), each in a goroutine of its own, on whichever stream it
	// comes, at most 64 at a time; where there are more, their streams are read no further. ctx holds the values of the context of
	// the call it came with; it ends when the server withdraws the question, or that call, that stream or the session has ended: heed
	// it, for Close waits. An *Error reaches the server as it is; of any other error, and of a panic, it sees only -32603, and the
	// Logger the rest. A result is marshalled by encoding/json. pings are answered without OnRequest; without it all else is refused
	// with -32601. A question may come again after Resume. Those on the standalone stream are heard only with OnNotification or Listen.
	OnRequest func(ctx context.Context, method string, params json.RawMessage) (any, error)
	// OnNotification gets what the server says outside of calls, one after the other. Setting it opens the standalone stream, which
	// is kept open, as far as the server has one, until Close; a session that has it needs no Listen. Connect waits until the server
	// has answered there, two seconds at most. While OnNotification runs, the stream is read
	// no further. A panic is logged.
	OnNotification func(method string, params json.RawMessage)

	// Backoff and BackoffMax are the wait after a first attempt that brought nothing, and the longest: each further one waits twice
	// as long. Backoff is also the wait where the server has said no retry. What it said is a floor, as is the Retry-After of a refusal
	// for one wait; polls that bring an event id and no message grow apart up to Backoff; 10 ms is the least. Each wait is up to a
	// fifth longer at random. Default to 1 s and 30 s (or Backoff, if that is more).
	Backoff, BackoffMax time.Duration
	// Attempts is how many in a row may bring nothing before a stream is given up: no connection, a passing refusal (408, 409, 425, 429,
	// 5xx), or an answer that ends without a new event id and without a message. One that the server held for BackoffMax, or until
	// IdleTimeout, is no failure: a quiet call may last for hours. Defaults to 10.
	Attempts int
	// HeaderTimeout is the wait for the head of an answer. A server that answers long calls in plain JSON may need more: there it ends
	// the call with ErrMayHaveRun. Defaults to 60 s.
	HeaderTimeout time.Duration
	// IdleTimeout is how long a stream that can be resumed may bring not a byte, not even a comment, before it counts as broken and is
	// asked for again. One without event ids is waited for until its call's context ends. Defaults to 60 s.
	IdleTimeout time.Duration
	// RetryLimit is the longest retry that is obeyed. A server that wants more gets no answer: the call ends with ErrRetryTooLong.
	// Defaults to 1 h.
	RetryLimit time.Duration
	// MaxEventBytes bounds one event, an answer in plain JSON, and what waits for Call.Messages (by one message more). Defaults to 16 MiB.
	MaxEventBytes int
	// Logger gets what no return value can say: answers that could not be sent, a standalone stream that was given up. Defaults to
	// slog.Default().
	Logger *slog.Logger
	// Trace, if set, is told of everything on the wire, in the order in which it happens on each stream, from several goroutines. It
	// must not block. An event id is in Call.Token before TracePrimer tells of it.
	Trace func(TraceEvent)
}

func (c *Config) resolve() error {
	c.HTTP = cmp.Or(c.HTTP, http.DefaultClient)
	if c.HTTP.Timeout != 0 {
		return errors.New("client: Config.HTTP must have no Timeout: it would end streams; use contexts, HeaderTimeout and IdleTimeout")
	}
	c.Name, c.Version = cmp.Or(c.Name, "rejoin"), cmp.Or(c.Version, "0")
	c.Backoff = cmp.Or(c.Backoff, time.Second)
	c.BackoffMax = cmp.Or(c.BackoffMax, max(30*time.Second, c.Backoff))
	c.Attempts = cmp.Or(c.Attempts, 10)
	c.HeaderTimeout, c.IdleTimeout = cmp.Or(c.HeaderTimeout, time.Minute), cmp.Or(c.IdleTimeout, time.Minute)
	c.RetryLimit = cmp.Or(c.RetryLimit, time.Hour)
	c.MaxEventBytes = cmp.Or(c.MaxEventBytes, 16<<20)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	switch {
	case c.MaxEventBytes < 0:
		return errors.New("client: Config.MaxEventBytes cannot be off")
	case c.Backoff < 0, c.BackoffMax < c.Backoff:
		return errors.New("client: Config.Backoff must be positive, and BackoffMax not less")
	}
	return nil
}
