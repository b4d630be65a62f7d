//go:build unix

package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// Error is an error that the server has answered, in its own words: "NOAUTH Authentication required.", for example.
type Error string

func (e Error) Error() string { return string(e) }

// Do sends one command over a connection of its own and returns the answer: of an array, its elements, a line each; of a number, its digits; of
// nothing, "". An error of the server is an Error. It is made for tests: INFO, CONFIG SET, a key or two.
func (s *Server) Do(ctx context.Context, args ...string) (string, error) {
	return do(ctx, s.Addr(), args...)
}

func do(ctx context.Context, addr string, args ...string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	_, err = io.WriteString(conn, b.String())
	var text string
	if err == nil {
		text, err = readReply(bufio.NewReader(conn))
	}
	if err != nil && ctx.Err() != nil {
		return "", errors.Join(ctx.Err(), err)
	}
	return text, err
}

// readReply reads one value of RESP2, the protocol in which a server answers a client that has not asked for another.
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line, ok := strings.CutSuffix(line, "\r\n")
	if !ok || line == "" {
		return "", fmt.Errorf("redistest: not a reply: %q", line)
	}
	kind, rest := line[0], line[1:]
	if kind == '+' || kind == ':' {
		return rest, nil
	} else if kind == '-' {
		return "", Error(rest)
	}
	n, err := strconv.Atoi(rest)
	if err != nil {
		return "", fmt.Errorf("redistest: not a reply: %q", line)
	}
	switch kind {
	case '$':
		if n < 0 {
			return "", nil
		}
		data := make([]byte, n+2)
		_, err := io.ReadFull(r, data)
		return string(data[:n]), err
	case '*':
		var lines []string
		for range max(0, n) {
			element, err := readReply(r)
			if e := Error(""); err != nil && !errors.As(err, &e) {
				return "", err
			} else if err != nil {
				element = err.Error()
			}
			lines = append(lines, element)
		}
		return strings.Join(lines, "\n"), nil
	}
	return "", fmt.Errorf("redistest: not a reply: %q", line)
}
