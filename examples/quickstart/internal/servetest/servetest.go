// Package servetest runs the quickstart with -serve, for the tests of the command and of package show.
package servetest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
)

// Server is a quickstart that serves.
type Server struct {
	URL string // of its MCP endpoint

	code   chan int
	rest   chan string
	stderr bytes.Buffer
}

// Start calls run in a goroutine, and returns when it has printed its URL. run runs the quickstart with -serve and returns its exit code.
func Start(t *testing.T, run func(stdout, stderr io.Writer) (code int)) *Server {
	t.Helper()
	s := &Server{code: make(chan int, 1), rest: make(chan string, 1)}
	out, stdout := io.Pipe()
	go func() {
		s.code <- run(stdout, &s.stderr)
		stdout.Close()
	}()
	printed := bufio.NewScanner(out)
	for s.URL == "" && printed.Scan() {
		s.URL = strings.TrimSpace(regexp.MustCompile(`^  http://127\.0\.0\.1:\d+/mcp$`).FindString(printed.Text()))
	}
	if s.URL == "" {
		t.Fatalf("no URL was printed; exit code %d, stderr: %s", <-s.code, &s.stderr)
	}
	go func() {
		var text strings.Builder
		for printed.Scan() {
			fmt.Fprintln(&text, printed.Text())
		}
		s.rest <- text.String()
	}()
	return s
}

// Wait waits until the quickstart has ended, and requires exit code 0. It returns what was printed on stdout after the URL.
func (s *Server) Wait(t *testing.T) (printed string) {
	t.Helper()
	if code := <-s.code; code != 0 {
		t.Errorf("exit code %d; stderr: %s", code, &s.stderr)
	}
	return <-s.rest
}
