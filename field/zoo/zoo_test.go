package zoo

import (
	"io"
	"log"
	"net/http"
	"time"

	"github.com/gin-contrib/cors"
	gingzip "github.com/gin-contrib/gzip"
	gintimeout "github.com/gin-contrib/timeout"
	"github.com/gin-gonic/gin"
	chimw "github.com/go-chi/chi/v5/middleware"
	echomw "github.com/labstack/echo/v4/middleware"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
)

// What the client of a row's calls gets, when it is sent event by event.
const (
	stream = "stream"         // each event as it comes
	zipped = "stream of gzip" // the same, compressed
	whole  = "JSON"           // nothing before the response, and that as one JSON object
	later  = "polls"          // each stream is closed as soon as it has begun, and goes on by polls
)

// row is one middleware on one router.
type row struct {
	router, middleware string
	mount              mount
	plain, gzip        string // what a client gets that accepts no encoding, and one that accepts gzip
	hides              bool   // write deadlines, where its client accepts gzip
	limit              int    // on bodies, the middleware's
	origin             string // what the client says
	know               string // what its users should know: the last column of docs/middleware.md
}

const (
	bodyLimit = 64 << 10  // of middleware that has one
	ownLimit  = 128 << 10 // of the server
	webPage   = "https://app.example"
	long      = time.Hour // the limits of middleware in a test in real time: they do not strike there
)

const knowCORS = "Expose `Mcp-Session-Id`, `WWW-Authenticate`, `Retry-After`; allow `Content-Type`, `Accept`, `Authorization`, `Mcp-Session-Id`, `Mcp-Protocol-Version`, `Last-Event-ID`, `Mcp-Method`, `Mcp-Name`, and DELETE. Name the origin in `Config.AllowedOrigins` too."

const (
	knowDeadline = "A stream is closed before the limit, and the call goes on: its client polls."
	knowGathers  = "A call that does not end in time is let go before the limit, and ends by polls. No standalone stream."
	knowLimit    = "What is over its limit gets 413, as what is over `Config.MaxBodyBytes`."
)

var (
	corsMethods = []string{"GET", "POST", "DELETE"}
	corsAllow   = []string{"Content-Type", "Accept", "Authorization", "Mcp-Session-Id", "Mcp-Protocol-Version", "Last-Event-ID", "Mcp-Method", "Mcp-Name"}
	corsExpose  = []string{"Mcp-Session-Id", "WWW-Authenticate", "Retry-After"}
)

// rows are the zoo. The limits of time are tested in virtual time, elsewhere.
func rows() (all []row) {
	add := func(r row) {
		if r.plain == "" {
			r.plain = stream
		}
		if r.gzip == "" {
			r.gzip = r.plain
		}
		all = append(all, r)
	}
	for _, r := range routers {
		add(row{router: r.name, middleware: "none", mount: r.mount})
	}
	add(row{router: "chi", middleware: "Compress", mount: onChi(chimw.Compress(5))})
	add(row{router: "chi", middleware: "Compress, text/event-stream", know: "Streams are compressed where their type is among its own; with `middleware.Compress(5)` they are not.", mount: onChi(chimw.Compress(5, "text/event-stream")), gzip: zipped})
	add(row{router: "chi", middleware: "Timeout", mount: onChi(chimw.Timeout(long)), know: knowDeadline})
	add(row{router: "chi", middleware: "Logger", mount: onChi(chimw.RequestLogger(&chimw.DefaultLogFormatter{Logger: log.New(io.Discard, "", 0)}))})
	add(row{router: "chi", middleware: "Recoverer", mount: onChi(chimw.Recoverer)})
	add(row{router: "chi", middleware: "Throttle", know: "A connection that is open takes a place, the standalone stream's too; a call whose client was let go takes none.", mount: onChi(chimw.Throttle(100))})

	add(row{router: "echo", middleware: "Gzip", mount: onEcho(echomw.Gzip()), gzip: zipped})
	add(row{router: "echo", middleware: "Gzip, MinLength", mount: onEcho(echomw.GzipWithConfig(echomw.GzipConfig{MinLength: 1 << 20})), gzip: zipped})
	add(row{
		router: "echo", middleware: "Timeout", plain: whole, know: knowGathers,
		mount: onEcho(echomw.TimeoutWithConfig(echomw.TimeoutConfig{Timeout: long})), //nolint:staticcheck // people still have it
	})
	add(row{router: "echo", middleware: "ContextTimeout", mount: onEcho(echomw.ContextTimeout(long)), know: knowDeadline})
	add(row{router: "echo", middleware: "BodyLimit", know: knowLimit, mount: onEcho(echomw.BodyLimit("64K")), limit: bodyLimit})
	add(row{router: "echo", middleware: "Recover", mount: onEcho(echomw.Recover())})
	add(row{router: "echo", middleware: "Logger", mount: onEcho(echomw.LoggerWithConfig(echomw.LoggerConfig{Output: io.Discard}))}) //nolint:staticcheck // people still have it
	add(row{router: "echo", middleware: "CORS", origin: webPage, know: knowCORS, mount: onEcho(echomw.CORSWithConfig(echomw.CORSConfig{
		AllowOrigins: []string{webPage}, AllowMethods: corsMethods, AllowHeaders: corsAllow, ExposeHeaders: corsExpose,
	}))})

	add(row{router: "gin", middleware: "Recovery", mount: onGin(gin.RecoveryWithWriter(io.Discard))})
	add(row{router: "gin", middleware: "Logger", mount: onGin(gin.LoggerWithWriter(io.Discard))})
	add(row{router: "gin", middleware: "gin-contrib/gzip", know: "It hides write deadlines. Where the `http.Server` has a `WriteTimeout`, streams are closed before that, and the calls go on.", mount: onGin(gingzip.Gzip(gingzip.DefaultCompression)), gzip: zipped, hides: true})
	add(row{router: "gin", middleware: "gin-contrib/cors", origin: webPage, know: knowCORS, mount: onGin(cors.New(cors.Config{
		AllowOrigins: []string{webPage}, AllowMethods: corsMethods, AllowHeaders: corsAllow, ExposeHeaders: corsExpose,
	}))})
	add(row{router: "gin", middleware: "gin-contrib/timeout", plain: later, know: "Each stream is closed as soon as it has begun, so a call of any length ends by polls.", mount: onGin(gintimeout.New(gintimeout.WithTimeout(long)))})

	for _, r := range routers {
		add(row{router: r.name, middleware: "http.TimeoutHandler", plain: whole, know: knowGathers, mount: around(r.mount, func(h http.Handler) http.Handler {
			return http.TimeoutHandler(h, long, "")
		})})
		add(row{router: r.name, middleware: "http.MaxBytesHandler", know: knowLimit, limit: bodyLimit, mount: around(r.mount, func(h http.Handler) http.Handler {
			return http.MaxBytesHandler(h, bodyLimit)
		})})
		add(row{router: r.name, middleware: "otelhttp", mount: around(r.mount, func(h http.Handler) http.Handler {
			return otelhttp.NewHandler(h, "mcp")
		})})
	}
	return all
}
