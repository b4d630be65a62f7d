// Package show is the quickstart on any router: a server, a client that polls, and a timeline of what goes over the network between them.
//
// server.go is the part to copy. client.go is a minimal polling client, taskclient.go a minimal client that takes tasks. The rest shows what they do.
package show

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/rejoin-mcp/rejoin"
)

// Mount mounts a server at a path of a router, and returns the router.
type Mount func(path string, srv *rejoin.Server) http.Handler

// Default is the router of a command without -router.
const Default = "stdlib"

// Others are the quickstarts on other routers.
type Others struct {
	Names []string
	// Run runs one of them as a program of its own, with these arguments, and returns its exit code.
	Run func(ctx context.Context, router string, args []string, stdout, stderr io.Writer) int
}

// Run is the command. The end of ctx or an interrupt ends it early and in good order; a second interrupt ends it at once. With others it has
// the flag -router.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, mount Mount, others *Others) (code int) {
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(stderr)
	alone := flags.Bool("serve", false, "keep serving, for any MCP client")
	addr := flags.String("addr", "127.0.0.1:8080", "where -serve listens")
	era := flags.String("era", legacy, "which version the client speaks without -serve: "+legacy+" ("+protocol+", it polls), "+
		modern+" ("+modernProtocol+", it takes a task)")
	router := Default
	names := []string{Default}
	if others != nil {
		names = append(names, others.Names...)
		slices.Sort(names)
		flags.StringVar(&router, "router", Default, "what it is mounted on: "+strings.Join(names, ", "))
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "quickstart: unexpected argument %q\n", flags.Arg(0))
		return 2
	case !slices.Contains(names, router):
		fmt.Fprintf(stderr, "quickstart: unknown router %q; there is %s\n", router, strings.Join(names, ", "))
		return 2
	case *era != legacy && *era != modern:
		fmt.Fprintf(stderr, "quickstart: unknown era %q; there is %s, %s\n", *era, legacy, modern)
		return 2
	case router != Default:
		return others.Run(ctx, router, []string{fmt.Sprintf("-serve=%t", *alone), "-addr", *addr, "-era", *era}, stdout, stderr)
	}
	if !*alone {
		*addr = "127.0.0.1:0"
	}

	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop)
	ln, err := net.Listen("tcp", *addr)
	if err == nil && *alone {
		err = serve(ctx, ln, mount, stdout)
	} else if err == nil {
		err = demo(ctx, ln, mount, *era, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "quickstart: "+strings.ReplaceAll(err.Error(), "\n", "\nquickstart: "))
		return 1
	}
	return 0
}
