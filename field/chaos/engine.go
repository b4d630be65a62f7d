//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/redistest"
)

// The persistence of the engine.
const (
	always   = "always"
	everysec = "everysec"
	none     = "none"
)

var modes = []string{always, everysec, none}

// powerCut is how much of the newest data a power cut takes from an engine with appendfsync everysec: what its process has written in the
// last second and a half may not be on the disk. A SIGKILL alone takes nothing of that: the kernel has it.
const powerCut = 1500 * time.Millisecond

// engine is a real engine, with or without a replica. The processes reach it through links.
type engine struct {
	mu      sync.Mutex
	mode    string
	primary *redistest.Server
	replica *redistest.Server // nil: none
	cable   *link             // through which the replica follows
	sizes   map[string][]size // of the files, as they were
	stop    context.CancelFunc
	watched chan struct{}
}

// size is the size of a file at a time.
type size struct {
	at time.Time
	n  int64
}

// newServer starts a server that appends each write to its file. It never rewrites that file: to imitate a power cut, the end of the file is cut
// off, and a rewrite would have moved those writes into another file.
func newServer(ctx context.Context) (*redistest.Server, error) {
	return redistest.Start(ctx, redistest.Options{Args: []string{
		"--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0", "--maxmemory-policy", "noeviction",
		"--repl-diskless-sync-delay", "0", "--repl-timeout", "600",
	}})
}

func startEngine(ctx context.Context, mode string) (*engine, error) {
	primary, err := newServer(ctx)
	if err != nil {
		return nil, err
	}
	e := &engine{primary: primary, sizes: map[string][]size{}, watched: make(chan struct{})}
	if err := e.persist(ctx, mode); err != nil {
		return nil, errors.Join(err, primary.Close())
	}
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.stop = stop
	go e.watch(watch)
	return e, nil
}

// persist changes the mode.
func (e *engine) persist(ctx context.Context, mode string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mode = mode
	return e.configure(ctx)
}

// configure tells the primary the mode. e.mu is held.
func (e *engine) configure(ctx context.Context) error {
	fsync := e.mode
	if e.mode == none {
		fsync = "no" // its files are removed when it ends
	}
	_, err := e.primary.Do(ctx, "CONFIG", "SET", "appendfsync", fsync)
	return err
}

func (e *engine) addr() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.primary.Addr()
}

// do sends a command to the primary.
func (e *engine) do(ctx context.Context, args ...string) (string, error) {
	e.mu.Lock()
	p := e.primary
	e.mu.Unlock()
	return p.Do(ctx, args...)
}

// files are those that the primary appends to.
func (e *engine) files() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	found, _ := filepath.Glob(filepath.Join(e.primary.Folder(), "appendonlydir", "*.incr.aof")) // the pattern is correct
	return found
}

// watch notes the sizes of the files, to know what a power cut leaves.
func (e *engine) watch(ctx context.Context) {
	defer close(e.watched)
	for pause(ctx, 100*time.Millisecond) == nil {
		now := time.Now()
		for _, path := range e.files() {
			info, err := os.Stat(path)
			if err != nil {
				continue
			}
			e.mu.Lock()
			e.sizes[path] = append(e.sizes[path], size{now, info.Size()})
			if over := len(e.sizes[path]) - 100; over > 0 {
				e.sizes[path] = e.sizes[path][over:]
			}
			e.mu.Unlock()
		}
	}
}

// kill ends the engine at once, and takes from its files what a crash of the machine takes in its mode.
func (e *engine) kill() error {
	files := e.files()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.primary.Kill(); err != nil {
		return err
	}
	switch e.mode {
	case none:
		return os.RemoveAll(filepath.Join(e.primary.Folder(), "appendonlydir"))
	case everysec:
		for _, path := range files {
			if err := e.cut(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// cut shortens a file to what it was before the last moments. e.mu is held.
func (e *engine) cut(path string) error {
	n, known := e.left(path)
	if !known {
		return nil
	}
	return os.Truncate(path, n)
}

// left is the size that a file had before the last moments; for one that is newer, the first that was seen.
func (e *engine) left(path string) (n int64, known bool) {
	before := time.Now().Add(-powerCut)
	for _, s := range e.sizes[path] {
		if s.at.Before(before) || !known {
			n, known = s.n, true
		}
	}
	return n, known
}

// restart starts the engine again after kill, on the same port.
func (e *engine) restart(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.primary.Restart(ctx); err != nil {
		return err
	}
	return e.configure(ctx)
}

// pause stops the engine, and resume lets it go on.
func (e *engine) pause() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.primary.Pause()
}

func (e *engine) resume() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.primary.Resume()
}

// fill takes away all memory, and empty gives it back.
func (e *engine) fill(ctx context.Context) error  { return e.limit(ctx, "1") }
func (e *engine) empty(ctx context.Context) error { return e.limit(ctx, "0") }

// limit limits the memory, in bytes. Another fault may have ended the engine, so it tries again until that is back.
func (e *engine) limit(ctx context.Context, bytes string) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		_, err := e.do(ctx, "CONFIG", "SET", "maxmemory", bytes)
		if err == nil {
			return nil
		}
		if pause(ctx, 20*time.Millisecond) != nil {
			return err
		}
	}
}

// follow starts a replica, and returns when it has all.
func (e *engine) follow(ctx context.Context) error {
	replica, err := newServer(ctx)
	if err != nil {
		return err
	}
	cable, err := newLink(e.addr())
	if err != nil {
		return errors.Join(err, replica.Close())
	}
	e.mu.Lock()
	e.replica, e.cable = replica, cable
	e.mu.Unlock()
	host, port, _ := strings.Cut(cable.addr, ":")
	if _, err := replica.Do(ctx, "REPLICAOF", host, port); err != nil {
		return err
	}
	for {
		info, err := replica.Do(ctx, "INFO", "replication")
		if err != nil {
			return err
		}
		if strings.Contains(info, "master_link_status:up") && strings.Contains(info, "master_sync_in_progress:0") {
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("the replica does not follow: %w", err)
		}
	}
}

// lag lets the replica get nothing any more.
func (e *engine) lag() error { return e.cable.set(silent) }

// promote makes the replica, as it is, to the engine. The old one is gone.
func (e *engine) promote(ctx context.Context) error {
	if err := e.primary.Kill(); err != nil {
		return err
	}
	if _, err := e.replica.Do(ctx, "REPLICAOF", "NO", "ONE"); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.primary
	e.primary, e.replica = e.replica, nil
	e.cable.close()
	clear(e.sizes)
	return errors.Join(old.Close(), e.configure(ctx))
}

// withoutEnd returns the keys that never expire, but for the one that says how old the engine's data are.
func (e *engine) withoutEnd(ctx context.Context) (left []string, err error) {
	keys, err := e.do(ctx, "KEYS", "*")
	if err != nil {
		return nil, err
	}
	for key := range strings.FieldsSeq(keys) {
		ttl, err := e.do(ctx, "TTL", key)
		if err != nil {
			return nil, err
		}
		if ttl == "-1" && !strings.HasSuffix(key, ":age") {
			left = append(left, key)
		}
	}
	return left, nil
}

func (e *engine) close() error {
	e.stop()
	<-e.watched
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.primary.Close()
	if e.replica != nil {
		e.cable.close()
		err = errors.Join(err, e.replica.Close())
	}
	return err
}
