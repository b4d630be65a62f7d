//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// node is one process of Node with all clients of the official TypeScript SDK.
type node struct {
	cmd *exec.Cmd
	in  io.WriteCloser

	mu       sync.Mutex
	next     int
	waiting  map[int]chan nodeAnswer // by the number of the question
	progress func(token, text string)
	ended    error
}

type nodeQuestion struct {
	N       int    `json:"n"`
	Do      string `json:"do"`
	Session int    `json:"session"`
	URL     string `json:"url,omitempty"`
	Work    *work  `json:"work,omitempty"`
}

type nodeAnswer struct {
	N       int    `json:"n"`
	Of      string `json:"of"` // of progress: the call; then there is no N
	Text    string `json:"text"`
	IsError bool   `json:"isError"`
	Error   string `json:"error"`
}

// startNode starts the program of conformance/clients/node.
func startNode(root string) (*node, error) {
	dir := filepath.Join(root, "conformance", "clients", "node")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json")); err != nil {
		return nil, errors.New("the TypeScript clients are not installed: run conformance/install clients/node, or take -typescript=false")
	}
	program, err := exec.LookPath("node")
	if err != nil {
		return nil, fmt.Errorf("%w: install nodejs, or take -typescript=false", err)
	}
	n := &node{cmd: exec.Command(program, "many.mjs", "sdk-1.32.2"), waiting: map[int]chan nodeAnswer{}} //nolint:noctx // it ends with its input
	n.cmd.Dir, n.cmd.Stderr = dir, os.Stderr
	if n.in, err = n.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := n.cmd.Start(); err != nil {
		return nil, err
	}
	go n.read(out)
	return n, nil
}

func (n *node) read(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		var a nodeAnswer
		if err == nil {
			err = json.Unmarshal(line, &a)
		}
		n.mu.Lock()
		if err != nil {
			n.ended = fmt.Errorf("node: %w", err)
			for _, w := range n.waiting {
				close(w)
			}
			n.waiting = nil
			n.mu.Unlock()
			return
		}
		w := n.waiting[a.N]
		delete(n.waiting, a.N)
		progress := n.progress
		n.mu.Unlock()
		switch {
		case a.Of != "":
			progress(a.Of, a.Text)
		case w != nil:
			w <- a
		}
	}
}

// ask asks the program, and waits for the answer.
func (n *node) ask(ctx context.Context, q nodeQuestion) (a nodeAnswer, err error) {
	answer := make(chan nodeAnswer, 1)
	n.mu.Lock()
	if n.ended != nil {
		n.mu.Unlock()
		return a, n.ended
	}
	n.next++
	q.N = n.next
	n.waiting[q.N] = answer
	line, err := json.Marshal(&q)
	if err == nil {
		_, err = n.in.Write(append(line, '\n'))
	}
	n.mu.Unlock()
	if err != nil {
		return a, err
	}
	select {
	case a, ok := <-answer:
		if !ok {
			return a, n.ended
		}
		if a.Error != "" {
			return a, errors.New(a.Error)
		}
		return a, nil
	case <-ctx.Done():
		return a, context.Cause(ctx)
	}
}

func (n *node) close() error {
	_ = n.in.Close() // it may have ended
	return n.cmd.Wait()
}

// nodeGuest is a session of the official TypeScript client, as it is by default.
type nodeGuest struct {
	crowd   *crowd
	n       int
	session string
}

func openNode(ctx context.Context, c *crowd, url string, _ *rand.Rand) (guest, error) {
	g := &nodeGuest{crowd: c, n: int(c.names.Add(1))}
	a, err := c.node.ask(ctx, nodeQuestion{Do: "open", Session: g.n, URL: url})
	g.session = a.Text
	return g, err
}

func (g *nodeGuest) id() string    { return g.session }
func (g *nodeGuest) listens() bool { return false }

func (g *nodeGuest) close(ctx context.Context) {
	_, _ = g.crowd.node.ask(ctx, nodeQuestion{Do: "close", Session: g.n}) // the session may be over
}

func (g *nodeGuest) call(ctx context.Context, r *record) {
	a, err := g.crowd.node.ask(ctx, nodeQuestion{Do: "call", Session: g.n, Work: &r.Work})
	if err != nil {
		g.crowd.settle(ctx, r, err)
		return
	}
	r.answer(a.Text, a.IsError)
}
