package core_test

import (
	"fmt"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
)

// driver drives one session without HTTP. The log of a stream is a slice in memory, which never fails and is never full, and what a
// connection writes is printed. Nothing here is a batch, cancelled, out of time or lost, so the other outputs do not occur.
type driver struct {
	machine core.Machine
	now     time.Time
	queue   []input // steps to take; the next one follows when all outputs of the one before were obeyed
	logs    map[core.StreamID][]string
	conns   map[core.ConnID]*conn // those whose Gone was not reported
}

type input struct {
	in      core.In
	message string // of an Emit or Reply
}

type conn struct {
	stream core.StreamID
	pos    uint64    // of the last event that it wrote
	head   bool      // its head was sent, so it reads the log
	wrote  bool      // it wrote something that was not reported
	end    *core.Out // it was told to end
}

// step takes a step, and those that follow from it.
func (d *driver) step(in core.In, message string) {
	if in.Op == core.Post || in.Op == core.Get {
		d.conns[in.Conn] = &conn{}
	}
	for d.queue = append(d.queue, input{in, message}); len(d.queue) > 0; d.queue = d.queue[1:] {
		for _, out := range d.machine.Step(d.now, &d.queue[0].in, nil) {
			d.obey(out, d.queue[0].message)
		}
		for id, c := range d.conns {
			d.write(id, c)
		}
	}
}

func (d *driver) obey(out core.Out, message string) {
	c := d.conns[out.Conn]
	switch out.Do {
	case core.Start:
		c.stream = out.Stream // and the app begins to work
	case core.Attach:
		c.stream, c.pos = out.Stream, out.Seq
	case core.Head:
		c.head = true
	case core.Primer:
		c.wrote = true
		fmt.Printf("%d: cursor %d, come back after %v\n", out.Conn, out.Seq, out.Dur)
	case core.Record:
		d.logs[out.Stream] = append(d.logs[out.Stream], message)
	case core.AnswerJSON:
		fmt.Printf("%d: JSON %s\n", out.Conn, message)
		c.end = &core.Out{}
	case core.End:
		c.end = &out
	case core.Refuse:
		fmt.Printf("%d: refused, reason %d\n", out.Conn, out.Reason)
		if c != nil { // else the app's Close or Adjust has failed
			c.stream, c.end = core.StreamID{}, &core.Out{}
		}
	case core.DropLog:
		delete(d.logs, out.Stream)
	}
}

// write lets a connection write what it can, and end if it was told to.
func (d *driver) write(id core.ConnID, c *conn) {
	for log := d.logs[c.stream]; c.head && c.pos < uint64(len(log)) && (c.end == nil || c.pos < c.end.Seq); c.wrote = true {
		fmt.Printf("%d: event %d: %s\n", id, c.pos+1, log[c.pos])
		c.pos++
	}
	if c.wrote {
		c.wrote = false
		d.queue = append(d.queue, input{in: core.In{Op: core.Written, Conn: id, Stream: c.stream, Seq: c.pos}})
	}
	if c.end == nil {
		return
	}
	fmt.Printf("%d: ends, come back after %v\n", id, c.end.Dur)
	delete(d.conns, id)
	d.queue = append(d.queue, input{in: core.In{Op: core.Gone, Conn: id, Stream: c.stream}})
}

// A driver without HTTP, and one call: its client gets the first message, is detached, and polls for the result.
func Example_driver() {
	handshake, call, standalone := core.StreamID{1}, core.StreamID{2}, core.StreamID{3} // random, in a server
	policy, now := core.Policy{StreamAfter: 100 * time.Millisecond, Retry: time.Second}, time.Unix(0, 0)
	d := &driver{core.New(&core.Config{Policy: policy}, standalone, now), now, nil, map[core.StreamID][]string{}, map[core.ConnID]*conn{}}

	d.step(core.In{Op: core.Post, Flags: core.Initialize, Stream: handshake, Conn: 1, ID: "0", Policy: &policy}, "")
	d.step(core.In{Op: core.Opened, ID: "2025-11-25"}, "")
	d.step(core.In{Op: core.Reply, Stream: handshake, ID: "0"}, "welcome")

	d.step(core.In{Op: core.Post, Stream: call, Conn: 2, Nonce: 2, ID: "1", Policy: &policy}, "")
	d.now = d.machine.Deadline() // the timer fires: StreamAfter
	d.step(core.In{Op: core.Tick}, "")
	d.step(core.In{Op: core.Emit, Stream: call}, "half of it")
	d.step(core.In{Op: core.Close, Stream: call}, "")
	d.step(core.In{Op: core.Reply, Stream: call, ID: "1"}, "all of it")
	d.step(core.In{Op: core.Get, Flags: core.HasCursor, Stream: call, Seq: 1, Conn: 3, Nonce: 3}, "")

	// Output:
	// 1: JSON welcome
	// 1: ends, come back after 0s
	// 2: cursor 0, come back after 1s
	// 2: event 1: half of it
	// 2: ends, come back after 1s
	// 3: cursor 1, come back after 1s
	// 3: event 2: all of it
	// 3: ends, come back after 0s
}
