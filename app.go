package rejoin

import (
	"net/http"
)

// App is the MCP server behind the transport: a bridge to an SDK, or NewApp around a Handler.
type App interface {
	// Open starts the app's side of a session, before initialize is delivered to it, or, with what SaveState last wrote, brings
	// an existing session to this process (not yet: state is nil). s can be used at once. r is the HTTP request that caused it;
	// do not keep it. An *Error reaches the client with status 400; of any other error it sees only that there was one.
	Open(r *http.Request, s *Session, state []byte) (AppSession, error)
	// Modern serves requests of the modern era, which have no session; a disconnect cancels them, and the end of the server, with
	// ErrShutdown as the cause. What they write may come from any goroutine; it is an error once the handler has returned. Nil: modern
	// requests are refused.
	Modern() http.Handler
}

// AppSession is the app's side of one session. It is called from many goroutines, in no promised order: a Request may come after
// Ended, with its context cancelled. No method may wait for a tool or for the client, and an app must not hold a lock of its own
// that these methods take while it calls a method of Session or Call: those may call back.
type AppSession interface {
	// Request starts a request. The app calls Reply or Fail on c once, now or later, from any goroutine.
	Request(c *Call)
	// Notification delivers a notification, except notifications/cancelled, which cancels the context of its call.
	Notification(n *Notification)
	// Ended tells that the session is over. Every request's context is cancelled already. It is called once, also for a
	// session whose initialize failed.
	Ended(cause error)
}
