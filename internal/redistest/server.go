//go:build unix

package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// startLimit is how long a server may take until it answers. It may have to load a file first.
	startLimit = time.Minute
	// stopLimit is how long it may take to end after SIGTERM: it waits 10 s for its replicas, and may have to write a file.
	stopLimit = 30 * time.Second
	// attempts is how many ports are tried, each of which another process may take before the server does.
	attempts = 10
)

// Options are what a server starts with. The zero value is redis-server on a free port, in a folder of its own, without persistence.
type Options struct {
	Program string   // defaults to "redis-server"; "valkey-server"
	Args    []string // more configuration, as on the command line: "--appendonly", "yes"
}

// Server is a child process, or one that was: it can be started again. Safe for concurrent use.
type Server struct {
	program string   // its path
	args    []string // after the configuration file
	folder  string
	port    int

	mu    sync.Mutex
	child *child // the newest
}

// Start starts a server and returns when it answers. ctx limits only the start; without a deadline, that is a minute.
func Start(ctx context.Context, o Options) (*Server, error) {
	return start(ctx, o, func() (string, error) { return defaults, nil })
}

// defaults are lines of a configuration file: nothing is kept on disk, and a replica need not wait for others before it gets the data.
const defaults = "save \"\"\nappendonly no\nrepl-diskless-sync-delay 0"

// start starts a server, with more arguments behind those of the options. Lines are those of its configuration file: arguments override them, and
// the server may rewrite them.
func start(ctx context.Context, o Options, lines func() (string, error), last ...string) (*Server, error) {
	name := o.Program
	if name == "" {
		name = "redis-server"
	}
	program, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w; install it, for example with: apt-get install %s", err, name)
	}
	args := append(append([]string{}, o.Args...), last...)
	for attempt := 1; ; attempt++ {
		s := &Server{program: program, args: args}
		if err = s.create(lines); err == nil {
			err = s.Restart(ctx)
		}
		if err == nil {
			return s, nil
		}
		taken := strings.Contains(err.Error(), "Address already in use")
		if closed := s.Close(); closed != nil || !taken || attempt == attempts {
			return nil, errors.Join(err, closed)
		}
	}
}

// New starts a server for a test, which fails if it does not start. The server ends with the test, as EndWith says.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s.EndWith(t)
	return s
}

// EndWith ends the server with a test; if the test has failed by then, its log has the end of the server's.
func (s *Server) EndWith(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("redistest: the log of %s ends so:\n%s", s.Addr(), s.LogTail())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// create makes the folder, with the configuration file.
func (s *Server) create(lines func() (string, error)) (err error) {
	if s.folder, err = os.MkdirTemp("", "redistest-"); err != nil {
		return err
	}
	if s.port, err = freePort(); err != nil {
		return err
	}
	more, err := lines()
	if err != nil {
		return err
	}
	text := fmt.Sprintf("bind 127.0.0.1\nport %d\ndir %q\ndaemonize no\n%s\n", s.port, s.folder, more)
	return os.WriteFile(s.config(), []byte(text), 0o600)
}

func (s *Server) config() string { return filepath.Join(s.folder, "server.conf") }
func (s *Server) log() string    { return filepath.Join(s.folder, "log") }

// Addr is host:port. It stays the same over restarts.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// Folder is where the server keeps its files, until Close.
func (s *Server) Folder() string { return s.folder }

// Pid is the id of the newest process.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child.pid()
}

// Restart starts the server again after Kill or Stop, or after it has ended by itself, on the same port and folder, and returns when it
// answers. ctx limits it as it does Start. What was changed with CONFIG SET is as it was at the start.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child.running() {
		return fmt.Errorf("redistest: %s runs already", s.Addr())
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c, err := launch(s.program, append([]string{s.config()}, s.args...), s.log())
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	s.child = c
	if err := s.answers(ctx); err != nil {
		_ = c.kill() // the error of the start says more
		return fmt.Errorf("redistest: %s on %s did not come up: %w; its log ends so:\n%s", s.program, s.Addr(), err, s.LogTail())
	}
	return nil
}

// answers waits until the server has loaded its data and answers. It sees that the answer is not that of another process on the same port.
func (s *Server) answers(ctx context.Context) error {
	pid := fmt.Sprintf("\nprocess_id:%d\r\n", s.child.pid())
	return s.child.await(ctx, func() error {
		if _, err := s.Do(ctx, "PING"); err != nil {
			return err
		}
		return s.says(ctx, pid, "INFO", "server")
	})
}

// says returns nil if the answer to a command contains a text.
func (s *Server) says(ctx context.Context, text string, args ...string) error {
	got, err := s.Do(ctx, args...)
	if err == nil && !strings.Contains(got, text) {
		err = fmt.Errorf("%s has no %q in its %s:\n%s", s.Addr(), strings.TrimSpace(text), strings.Join(args, " "), got)
	}
	return err
}

// await waits until done returns nil, for as long as the process of the server lives, and for a minute at most.
func (s *Server) await(ctx context.Context, done func() error) error {
	s.mu.Lock()
	c := s.child
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := c.await(ctx, done); err != nil {
		return fmt.Errorf("redistest: %w; the log of %s ends so:\n%s", err, s.Addr(), s.LogTail())
	}
	return nil
}

// Kill ends the process as a crash does, with SIGKILL, and waits until it has ended. It is no error if it has ended before.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child.kill()
}

// Stop ends the process in order, with SIGTERM, and waits until it has ended. A paused process goes on for that. It is an error if the process
// does not end, or ends with another exit code than 0; then it is killed.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.child.stop(); err != nil {
		return fmt.Errorf("redistest: %s: %w; its log ends so:\n%s", s.Addr(), err, s.LogTail())
	}
	return nil
}

// Pause stops the process in the middle of what it does, with SIGSTOP: connections stay open, and connections to it are still accepted.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on, with SIGCONT.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child.signal(sig)
}

// Close kills the process and removes the folder. The server cannot be started again. Close may be called twice.
func (s *Server) Close() error { return errors.Join(s.Kill(), os.RemoveAll(s.folder)) }

// LogTail is the end of what the server has logged.
func (s *Server) LogTail() string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	const shown = 2000
	return string(text[max(0, len(text)-shown):])
}
