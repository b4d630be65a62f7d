//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// What the lines of the oracle say.
const (
	toolBegan    = "began"   // a tool has begun
	toolSends    = "sends"   // it is about to give event N to rejoin
	toolSent     = "sent"    // rejoin has taken it
	toolAside    = "aside"   // rejoin has taken event N for the standalone stream
	toolReturns  = "returns" // the tool is about to return its result
	toolFull     = "full"    // rejoin has refused event N, because the engine has no memory; the tool goes on
	toolFailed   = "failed"  // a send was refused, or the call's context ended: the tool ends without a result
	owns         = "owns"    // a process has made the record of a session, or made it again
	adopts       = "adopts"  // a process has adopted a session
	wrote        = "wrote"   // the engine has taken an event under the process's fence
	processBegan = "process" // a process serves
	processEnds  = "leaves"  // it has drained, and ends in order
	suffix       = ".oracle" // of the files
)

// entry is a line of the oracle. Each process appends to a file of its own, with one write for a line, so that what it has written
// survives its SIGKILL. All processes run on one machine, so all lines are of one clock.
type entry struct {
	Process string `json:"-"` // from the name of the file
	At      int64  `json:"t"` // in nanoseconds: when the line was written
	Do      string `json:"do"`
	Call    string `json:"c,omitempty"`
	Session string `json:"s,omitempty"` // of a tool: the id; of the directory: the key
	N       int    `json:"n,omitempty"`
	Error   string `json:"e,omitempty"`

	Began       int64  `json:"b,omitempty"` // when the operation of the directory or the store began
	Stream      string `json:"l,omitempty"`
	Sum         uint64 `json:"h,omitempty"` // of the event
	Incarnation string `json:"i,omitempty"`
	Epoch       uint64 `json:"ep,omitempty"`
}

// oracle is the file of one process. Safe for concurrent use.
type oracle struct {
	f *os.File
}

func openOracle(path string) (*oracle, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &oracle{f}, err
}

// write appends a line. A process that cannot write must not go on: what it does then would not be accounted for.
func (o *oracle) write(e entry) {
	e.At = time.Now().UnixNano()
	line, err := json.Marshal(e)
	if err == nil {
		_, err = o.f.Write(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos: the oracle:", err)
		os.Exit(1)
	}
}

// readOracle reads what all processes have written.
func readOracle(dir string) (all []entry, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("no process has written anything")
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		process := strings.TrimSuffix(filepath.Base(path), suffix)
		for line := range bytes.Lines(text) {
			e := entry{Process: process}
			if err := json.Unmarshal(line, &e); err != nil {
				return nil, fmt.Errorf("%s: %w: %s", path, err, line)
			}
			all = append(all, e)
		}
	}
	return all, nil
}
