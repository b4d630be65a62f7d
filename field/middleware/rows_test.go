package middleware

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

// How the events of a call reach the client of a row.
const (
	stream = "stream"         // each event as it comes
	zipped = "stream of gzip" // the same, compressed
	whole  = "JSON"           // no events; the response as one JSON object
	later  = "polls"          // each stream is closed as soon as it has begun, and polled
)

// row is one middleware on one router.
type row struct {
	router, middleware string
	mount              mount
	plain, gzip        string // how events reach a client that accepts no encoding, and one that accepts gzip
	hides              bool   // it hides write deadlines from a client that accepts gzip
	limit              int    // its limit on bodies; 0: none
	origin             string // the Origin of the client
	know               string // what its users should know: the last column of docs/middleware.md
}

const (
	bodyLimit = 64 << 10  // of middleware that has one
	ownLimit  = 128 << 10 // the server's MaxBodyBytes
	webPage   = "https://app.example"
	long      = time.Hour // the time limits of middleware, which are not reached in real time
)

const (
	knowCORS      = "See [CORS](#cors)."
	knowDeadline  = "A stream is closed before the limit, and the call continues: its client polls."
	knowDeadlines = "See [write deadlines](#write-deadlines)."
	knowGathers   = "A longer call is disconnected before the limit, and polled. No standalone stream."
	knowLimit     = "A body over its limit gets 413, like one over `Config.MaxBodyBytes`."
)

var (
	corsMethods = []string{"GET", "POST", "DELETE"}
	corsAllow   = []string{"Content-Type", "Accept", "Authorization", "Mcp-Session-Id", "Mcp-Protocol-Version", "Last-Event-ID", "Mcp-Method", "Mcp-Name"}
	corsExpose  = []string{"Mcp-Session-Id", "WWW-Authenticate", "Retry-After"}
)

// rows lists all middleware. Time limits are tested in virtual time, in deadline_test.go.
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
	add(row{router: "chi", middleware: "Compress, text/event-stream", know: "`middleware.Compress(5)`, without this type, does not compress streams.", mount: onChi(chimw.Compress(5, "text/event-stream")), gzip: zipped})
	add(row{router: "chi", middleware: "Timeout", mount: onChi(chimw.Timeout(long)), know: knowDeadline})
	add(row{router: "chi", middleware: "Logger", mount: onChi(chimw.RequestLogger(&chimw.DefaultLogFormatter{Logger: log.New(io.Discard, "", 0)}))})
	add(row{router: "chi", middleware: "Recoverer", mount: onChi(chimw.Recoverer)})
	add(row{router: "chi", middleware: "Throttle", know: "Every connection takes a place, also the standalone stream. A call whose client is disconnected takes none.", mount: onChi(chimw.Throttle(100))})

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
	add(row{router: "gin", middleware: "gin-contrib/gzip", know: knowDeadlines, mount: onGin(gingzip.Gzip(gingzip.DefaultCompression)), gzip: zipped, hides: true})
	add(row{router: "gin", middleware: "gin-contrib/cors", origin: webPage, know: knowCORS, mount: onGin(cors.New(cors.Config{
		AllowOrigins: []string{webPage}, AllowMethods: corsMethods, AllowHeaders: corsAllow, ExposeHeaders: corsExpose,
	}))})
	add(row{router: "gin", middleware: "gin-contrib/timeout", plain: later, know: "Each stream is closed as soon as it has begun, so a call of any length completes by polls.", mount: onGin(gintimeout.New(gintimeout.WithTimeout(long)))})

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
