package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run is the command. It ends early, and in good order, when ctx does or on the first interrupt; a second one kills.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(stderr)
	alone := flags.Bool("serve", false, "keep serving, for any MCP client")
	addr := flags.String("addr", "127.0.0.1:8080", "where -serve listens")
	router := flags.String("router", "stdlib", "what it is mounted on: "+routerNames())
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "quickstart: unexpected argument %q\n", flags.Arg(0))
		return 2
	}
	mount, ok := routers[*router]
	if !ok {
		fmt.Fprintf(stderr, "quickstart: unknown router %q; there is %s\n", *router, routerNames())
		return 2
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
		err = demo(ctx, ln, mount, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "quickstart: "+strings.ReplaceAll(err.Error(), "\n", "\nquickstart: "))
		return 1
	}
	return 0
}
