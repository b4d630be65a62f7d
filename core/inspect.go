package core

import "time"

// State is the state of a stream, as logs and admin pages show it.
type State uint8

// The states.
const (
	Dropped State = iota // there is no such stream
	Pending              // a POST waits for its answer, which may still become JSON
	Live                 // a connection reads it
	Parked               // it runs and has no reader
	Sealed               // it has ended
)

func (s State) String() string {
	return [...]string{"dropped", "pending", "live", "parked", "sealed"}[s]
}

// Info is a snapshot of a stream.
type Info struct {
	State State
	Since time.Time // when the stream was made
	Seq   uint64    // its last event
}

// Created returns the time that New was given.
func (m *Machine) Created() time.Time { return m.base }

// Standalone returns the id of the standalone stream, and the zero value after the end of the session.
func (m *Machine) Standalone() StreamID { return m.standaloneID }

// Inspect returns a snapshot of the stream with that index, zero if there is none. It may be called after the end of the session.
func (m *Machine) Inspect(index int32) Info {
	if m.streamTable == nil && m.phase != phaseEnded && index == standalone {
		return Info{State: Parked, Since: m.base}
	}
	if m.streamTable == nil || int(index) >= len(m.streams) {
		return Info{}
	}
	s := &m.streams[index]
	info := Info{Since: m.base.Add(s.created), Seq: s.seq}
	switch {
	case s.phase == streamUnused:
		return Info{}
	case s.phase == streamEnded:
		info.State = Sealed
	case s.reader == readerUndecided:
		info.State = Pending
	case s.reader == readerAttached:
		info.State = Live
	default:
		info.State = Parked
	}
	return info
}
